"""Names of runs: the folder of a script, what differs and no more, numbers for repetitions."""

import json

from hypothesis import given
from hypothesis import strategies as st

from trainload.analyse.naming import distinguish, distinguish_facts
from trainload.record import parse_manifest


def script(path, *arguments, folder=None, **facts):
    told = {"script.path": path, "script.arguments": json.dumps(arguments), "model": "main"}
    return {**told, "script.folder": folder, **facts}


def test_scripts_of_one_name_are_told_by_folder_and_arguments():
    names = distinguish_facts(
        [
            script("cifar/main.py", "--lr", "0.1"),
            script("cifar/main.py", "--lr=0.2", "--fp16"),
            script("main.py", folder="imagenet"),
        ]
    )
    assert names == ["cifar/main lr=0.1", "cifar/main lr=0.2", "imagenet/main"]


def test_only_what_differs_is_told_and_only_where_it_does():
    base = {"framework": "torch", "setting": "cpu0", "batch_size": 64, "epochs": 3}
    names = distinguish_facts(
        [
            {"model": "mlp", **base},
            {"model": "mlp", **base, "batch_size": 128},
            {"model": "mlp", **base, "batch_size": 128, "framework": "jax"},
            {"model": "resnet18", **base, "epochs": 9},
        ]
    )
    assert names == ["mlp torch batch_size=64", "mlp torch batch_size=128", "mlp jax", "resnet18"]
    assert distinguish_facts([{"model": "mlp", **base}]) == ["mlp"]
    assert distinguish_facts([]) == []


def test_positional_words_negative_numbers_and_long_values():
    names = distinguish_facts(
        [script("t.py", "a.yaml", "--x", "-1"), script("t.py", "b" * 50 + ".yaml", "--x", "-1")]
    )
    assert names[0] == "t a.yaml" and names[1].endswith("bbb.yaml") and len(names[1]) < 40


def test_repetitions_are_numbered_by_when_they_began_whatever_the_order():
    first, second = (
        parse_manifest(
            json.dumps(
                {
                    "format": 1,
                    "run_id": run_id,
                    "created": created,
                    "workload": {"model": "m", "watched": {"lr": 1}},
                }
            ),
            "x",
        )
        for run_id, created in (("b", "2026-01-01T00:00:00Z"), ("a", "2026-01-02T00:00:00Z"))
    )
    assert distinguish([first, second]) == ["m #1", "m #2"]
    assert distinguish([second, first]) == ["m #2", "m #1"]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["model", "framework", "a", "script.arguments", "script.path"]),
            st.sampled_from([None, "", "a", "b", "a b", '["--x", "1"]', '["--x"]', "{", 3]),
        ),
        max_size=8,
    )
)
def test_names_differ_whatever_the_facts_and_do_not_depend_on_order(facts):
    names = distinguish_facts(facts)
    assert len(set(names)) == len(names) == len(facts)
    backwards = distinguish_facts(facts[::-1], list(range(len(facts)))[::-1])
    assert backwards[::-1] == names
