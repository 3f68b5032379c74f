# Which model and which pairs a job starts from.


def base_folder():
    """The model that fine-tuning starts from."""
    return f"{RESULTS}/pretrain/model" if study.pretrain else f"{RESULTS}/model/base"


def trained_model(wildcards):
    """The model folder that a method ends in; the SFT model is the method `sft`."""
    if wildcards.method == "sft":
        return f"{RESULTS}/sft/seed{wildcards.seed}/model"
    return f"{RESULTS}/train/{wildcards.method}/seed{wildcards.seed}/model"


def start_model(wildcards):
    """The model that a method starts from: the SFT model of its seed, or the base model."""
    if study.spec(wildcards.method).start == "base":
        return base_folder()
    return f"{RESULTS}/sft/seed{wildcards.seed}/model"


def pairs_file(wildcards):
    """The pairs of answers, for methods that learn from them."""
    if study.spec(wildcards.method).data != "pairs":
        return []
    return [f"{RESULTS}/preferences/seed{wildcards.seed}/pairs.jsonl"]
