# Cluster resources: small for a model built here, larger for a real one; a retry gets more.
SMALL = study.model.source == "scratch"
DEVICE = study.compute.device
# With device `auto` and no GPU here, which a login node seldom has, the profile decides.
GPUS = {"cpu": 0, "cuda": 1, "auto": 1 if which("nvidia-smi") else None}[DEVICE]
GPU = {} if GPUS is None else {"gpu": GPUS}


def mem_mb_light(wildcards, attempt):
    return 4000 * attempt


def mem_mb_train(wildcards, attempt):
    return (3000 if SMALL else 16000) * attempt


def runtime_train(wildcards, attempt):
    return (30 if SMALL else 720) * attempt
