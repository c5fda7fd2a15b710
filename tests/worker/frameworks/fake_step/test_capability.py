"""What a step asks of its GPU's capability, and which others would have answered alike."""

from trainload_worker.frameworks.torch.fake_step.capability import Capability


def test_a_capability_that_nobody_asks_for_stands_for_all():
    first, beyond = Capability((7, 5)).alike
    assert first <= (3, 0) and beyond > (12, 1)


def test_each_question_leaves_those_that_answer_alike():
    ampere = Capability((8, 6))
    assert ampere.at_least((8, 0)) and not ampere.at_least((9, 0))
    assert not ampere.at_least((11, 0)) and ampere.at_least((7, 0))
    assert ampere.alike == ((8, 0), (9, 0))


def test_who_is_told_the_number_itself_has_no_like():
    blackwell = Capability((10, 0))
    assert blackwell.tell() == (10, 0) and blackwell.alike == ((10, 0), (10, 1))
    assert not blackwell.at_least((11, 0)) and blackwell.alike == ((10, 0), (10, 1))
