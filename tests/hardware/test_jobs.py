"""The identifiers that Slurm and Kubernetes give a job."""

from trainload.hardware import Job, read_job


def test_slurm_tells_its_job_and_array(tmp_path):
    told = {
        "SLURM_JOB_ID": "4217",
        "SLURM_JOB_NAME": "train",
        "SLURM_CLUSTER_NAME": "alpha",
        "SLURM_ARRAY_JOB_ID": "4200",
        "SLURM_ARRAY_TASK_ID": "17",
        "SLURM_STEP_ID": "0",
        "SLURM_RESTART_COUNT": "2",
    }
    assert read_job(told, tmp_path / "none") == Job(
        scheduler="slurm", id="4217", name="train", group="alpha", array_id="4200", task="17",
        step="0", restarts=2,
    )  # fmt: skip


def test_kubernetes_tells_its_pod_and_namespace(tmp_path):
    (tmp_path / "namespace").write_text("research\n")
    told = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "resnet-x7k", "JOB_NAME": "resnet"}
    assert read_job(told, tmp_path / "namespace") == Job(
        scheduler="kubernetes", id="resnet-x7k", name="resnet", group="research"
    )


def test_outside_of_both_there_is_none(tmp_path):
    assert read_job({"HOSTNAME": "laptop"}, tmp_path / "none") is None
