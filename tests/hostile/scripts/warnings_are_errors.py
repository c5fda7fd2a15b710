# Makes every warning an error.
import warnings

warnings.simplefilter("error")
print("done")
