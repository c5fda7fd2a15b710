"""What of a command line is taken for a secret."""

import pytest

from trainload.errors import UsageError
from trainload.workload.masking import Masking, open_masking


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--api-key=abcd"], ("--api-key=***",)),
        (["--password", "abcd", "x"], ("--password", "***", "x")),
        (["--password", "--epochs", "3"], ("--password", "--epochs", "3")),
        (["HF_TOKEN=abcd", "trainer.secret=abcd"], ("HF_TOKEN=***", "trainer.secret=***")),
        (["s3://me:pw@host/a"], ("s3://***@host/a",)),
        (["https://h/?a=1&token=abcd&b=2"], ("https://h/?a=1&token=***&b=2",)),
        (['{"api_key": "abcd", "lr": 1}'], ('{"api_key": ***, "lr": 1}',)),
        (["Authorization: Bearer abcd"], ("Authorization: Bearer ***",)),
        (["hf_abcdefghijklmnopqrst"], ("***",)),
        (["--lr=1e-3", "--pad-token", "<p>"], ("--lr=1e-3", "--pad-token", "<p>")),
        (
            ["--max-tokens=5", "--tokenizer=x", "a@b.c"],
            ("--max-tokens=5", "--tokenizer=x", "a@b.c"),
        ),
    ],
)
def test_values_of_names_that_say_so_are_masked(words, kept):
    assert Masking().arguments(words) == kept


def test_settings_are_masked_by_their_names_and_later_words_by_the_values():
    masking = Masking()
    kept = masking.config({"wandb": {"api_key": "abcd"}, "lr": 0.1, "tokens": [1]})
    assert kept == {"wandb": {"api_key": "***"}, "lr": 0.1, "tokens": [1]}
    assert masking.count == 1 and masking.scrubbed("no such key: abcd") == "no such key: ***"


def test_users_add_their_own(monkeypatch):
    monkeypatch.setenv("TRAINLOAD_MASK", "customer|id-[0-9]+")
    assert open_masking().arguments(["--customer=x", "id-77.csv"]) == ("--customer=***", "***.csv")
    monkeypatch.setenv("TRAINLOAD_MASK", "(")
    with pytest.raises(UsageError, match="no regular expression"):
        open_masking()
