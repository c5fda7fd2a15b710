"""Kernels of XLA's CUDA graphs, which carry the graph's name, find their instructions again."""

from trainload_worker.frameworks.xla.graph_kernels import GraphKernels
from trainload_worker.frameworks.xla.text import parse_program

PROGRAM = """
ENTRY %main.1 (p0: f32[8,4]) -> f32[8,4] {
  %p0 = f32[8,4]{1,0} parameter(0)
  %custom-call.3 = f32[8,4]{1,0} custom-call(%p0, %p0), custom_call_target="__cublas$gemm"
  %loop_tanh_fusion.2 = f32[8,4]{1,0} fusion(%custom-call.3), kind=kLoop, calls=%f
  %custom-call.5 = f32[8,4]{1,0} custom-call(%loop_tanh_fusion.2), custom_call_target="x"
  ROOT %loop_add_fusion = f32[8,4]{1,0} fusion(%custom-call.5), kind=kLoop, calls=%f
}
"""
STEP = ("sm90_gemm_a", "loop_tanh_fusion_2", "Memset 0", "sm90_gemm_b", "splitK", "loop_add_fusion")
OWNERS = (
    "custom-call.3", "loop_tanh_fusion.2", "", "custom-call.5", "custom-call.5", "loop_add_fusion",
)  # fmt: skip


def test_kernels_follow_the_order_of_the_program_step_after_step():
    kernels = GraphKernels(parse_program(PROGRAM))
    for _ in range(3):
        assert tuple(map(kernels.find, STEP)) == OWNERS


def test_instructions_outside_of_graphs_move_the_place_on():
    kernels = GraphKernels(parse_program(PROGRAM))
    kernels.pass_by("custom-call.3")
    kernels.pass_by("loop_tanh_fusion.2")
    assert kernels.find("sm90_gemm_b") == "custom-call.5"


def test_a_program_without_instructions_owns_no_kernel():
    assert GraphKernels([]).find("sm90_gemm") == ""
