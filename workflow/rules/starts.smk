# Which models, pairs and options a job starts from.


def run_of(wildcards):
    return RUNS[wildcards.run]


def start_model(wildcards):
    """The model folder that a run starts from."""
    return str(FOLDER.start_of(run_of(wildcards), int(wildcards.seed), RUNS))


def sampled_model(wildcards):
    """The model folder whose pairs of answers are sampled."""
    start = STARTS[wildcards.start]
    seed = RUNS[start.run].seed(int(wildcards.seed)) if start.run else 0
    return str(FOLDER.start(start, seed))


def needed(model, start):
    """What a job needs first: a model, or everything that a run keeps."""
    return model if start.tokens is None else str(Path(model).parent)


def start_files(wildcards):
    return needed(start_model(wildcards), run_of(wildcards).start)


def sampled_files(wildcards):
    return needed(sampled_model(wildcards), STARTS[wildcards.start])


def pairs_file(wildcards):
    """The pairs of answers of a run's start, for runs that learn from them."""
    run = run_of(wildcards)
    if not run.trainer.pairs:
        return []
    return [str(FOLDER.pairs(run.start, wildcards.seed) / "pairs.jsonl")]


def run_options(wildcards):
    run = run_of(wildcards)
    return options(run.options, *run.options.free)
