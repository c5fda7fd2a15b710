"""Sizes of networks as published, for the tests that hold the zoo to them."""

PARAMETERS = {
    "alexnet": 61_100_840,
    "vgg11": 132_863_336,
    "vgg16": 138_357_544,
    "googlenet": 6_624_904,
    "inception_v3": 23_834_568,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
    "densenet121": 7_978_856,
    "squeezenet1_0": 1_248_424,
    "squeezenet1_1": 1_235_496,
}
"""With 1000 classes: torchvision's figures, without auxiliary heads."""
