"""Operations of an op trace as works: class, type, sizes, FLOPs."""

import pytest

from trainload.estimate.counts.operations import lacking_operands
from trainload.estimate.memory.op_trace import Operation, TraceTensor
from trainload.predict.operations import works_of
from trainload.predict.work import shape_of


def tensor(*shape, dtype="float32", strides=None):
    return TraceTensor(shape=shape, dtype=dtype, strides=strides, storage=1)


def operation(name, inputs, outputs, attributes=(), phase="forward", step=0):
    return Operation(
        name=f"aten.{name}",
        layer="part",
        phase=phase,
        step=step,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attributes=tuple(attributes),
    )


def work(*words, tf32=False, **more):
    (found,) = works_of([operation(*words, **more)], tf32=tf32)
    return found


def test_a_product_with_its_sizes():
    inputs = [tensor(10), tensor(8, 4), tensor(4, 10)]
    found = work("addmm.default", inputs, [tensor(8, 10)])
    assert found.operation == "linear" and found.sizes == {"m": 8, "n": 10, "k": 4}
    assert found.flops == 640 and found.layer == "part" and found.dtype == "float32"


def test_tf32_is_for_products_alone_and_by_default_for_cudnn():
    product = ("mm.default", [tensor(8, 4), tensor(4, 10)], [tensor(8, 10)])
    assert work(*product).dtype == "float32" and work(*product, tf32=True).dtype == "tf32"
    assert work("relu.default", [tensor(8)], [tensor(8)], tf32=True).dtype == "float32"
    image, weight = tensor(2, 3, 8, 8), tensor(4, 3, 3, 3)
    words = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    found = work("convolution.default", [image, weight], [tensor(2, 4, 8, 8)], words)
    assert found.dtype == "tf32" and found.operation == "conv"
    assert (found.sizes["kernel"], found.sizes["stride"], found.sizes["groups"]) == (3, 1, 1)
    shape = shape_of(found)
    assert (shape.m, shape.n, shape.k) == (128, 4, 27)


def test_a_convolution_goes_back_in_two_parts():
    half = {"dtype": "float16"}
    inputs = [tensor(2, 4, 4, 4, **half), tensor(2, 6, 8, 8, **half), tensor(4, 3, 3, 3, **half)]
    words = [[0], [2, 2], [1, 1], [1, 1], False, [0, 0], 2, [True, True, False]]
    outputs = [tensor(2, 6, 8, 8, **half), tensor(4, 3, 3, 3, **half)]
    found = works_of(
        [operation("convolution_backward.default", inputs, outputs, words, phase="backward")]
    )
    assert [one.operation for one in found] == ["conv_grad_input", "conv_grad_weight"]
    assert found[0].sizes["in_channels"] == 6 and found[0].sizes["groups"] == 2
    assert found[0].sizes["stride"] == 2 and found[0].dtype == "float16"
    only = [*words[:-1], [False, True, False]]
    (alone,) = works_of(
        [operation("convolution_backward.default", inputs, outputs, only, phase="backward")]
    )
    assert alone.operation == "conv_grad_weight"
    assert alone.flops == found[0].flops


@pytest.mark.parametrize(
    ("name", "phase", "kind"),
    [
        ("native_layer_norm.default", "forward", "norm"),
        ("native_layer_norm_backward.default", "backward", "norm_backward"),
        ("_log_softmax.default", "forward", "softmax"),
        ("max_pool2d_with_indices_backward.default", "backward", "pool_backward"),
        ("sum.dim_IntList", "backward", "reduction"),
        ("_to_copy.default", "forward", "copy"),
        ("gelu.default", "forward", "elementwise"),
        ("_foreach_add_.List", "update", "elementwise"),
        ("_fused_adamw_.default", "update", "optimizer"),
    ],
)
def test_classes_by_name(name, phase, kind):
    assert work(name, [tensor(4, 8)], [tensor(4, 8)], phase=phase).operation == kind


def test_only_the_last_step_counts():
    events = [operation("relu.default", [tensor(8)], [tensor(8)], step=at) for at in (0, 1, 1)]
    assert len(works_of(events)) == 2


def test_attention_by_its_heads():
    parts = [tensor(2, 4, 16, 8)] * 3
    found = work("_scaled_dot_product_flash_attention.default", parts, [tensor(2, 4, 16, 8)])
    assert found.operation == "attention" and found.sizes["heads"] == 4
    shape = shape_of(found)
    assert (shape.batch, shape.m, shape.n, shape.k) == (8, 16, 16, 8)


def test_images_with_channels_innermost_are_seen():
    image = tensor(2, 16, 8, 8, dtype="float16", strides=(1024, 1, 128, 16))
    words = (None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    weight = tensor(4, 16, 3, 3, dtype="float16")
    found = work("convolution.default", [image, weight], [tensor(2, 4, 8, 8)], words)
    assert found.channels_last


def test_a_bias_is_a_pass_over_the_image_and_a_sum_of_its_gradient():
    image, weight, bias = tensor(2, 3, 8, 8), tensor(4, 3, 3, 3), tensor(4)
    words = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    forward = operation("convolution.default", [image, weight, bias], [tensor(2, 4, 8, 8)], words)
    product, added = works_of([forward])
    assert product.operation == "conv" and added.operation == "elementwise"
    assert added.bytes == 2 * 4 * 512 and added.sizes == {"elements": 512, "operands": 2}
    inputs = [tensor(2, 4, 8, 8), image, weight]
    asked = [[4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, False, True]]
    name = "convolution_backward.default"
    (summed,) = works_of([operation(name, inputs, [bias], asked, phase="backward")])
    assert summed.operation == "reduction" and summed.bytes == 4 * 512


def test_a_copy_into_another_order_is_known():
    turned = work("clone.default", [tensor(4, 6, strides=(1, 4))], [tensor(4, 6)])
    assert turned.sizes["turned"] == 1
    assert "turned" not in work("clone.default", [tensor(4, 6)], [tensor(4, 6)]).sizes


def test_a_loss_reads_one_entry_of_each_row():
    scores, targets = tensor(64, 1000), tensor(64, dtype="int64")
    outputs = [tensor(), tensor()]
    found = work("nll_loss_forward.default", [scores, targets], outputs)
    assert found.bytes == 16 * 64
    back = work("nll_loss_backward.default", [tensor(), scores, targets], [scores])
    assert back.bytes == 4 * 64_000


def test_norms_of_images_go_by_channel_and_layer_norms_by_row():
    image = tensor(2, 16, 8, 8)
    assert work("native_batch_norm.default", [image], [image]).sizes["channels"] == 16
    assert "channels" not in work("native_group_norm.default", [image], [image]).sizes
    series = tensor(2, 16, 100)
    assert work("native_batch_norm.default", [series], [series]).sizes["channels"] == 16


def test_a_product_without_its_weights_is_found():
    whole = operation("mm.default", [tensor(4, 8), tensor(8, 2)], [tensor(4, 2)])
    bare = operation("addmm.default", [tensor(4, 8)], [tensor(4, 2)])
    assert lacking_operands([whole]) is None and lacking_operands([whole, bare]) == "addmm"
