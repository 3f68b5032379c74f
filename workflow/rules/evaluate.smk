# Greedy answers of every model, and baselines without a language model, on the same rows.
from hargo.evaluation.baselines import FILES as BASELINES


rule evaluate:
    input:
        model=str(FOLDER.model("{run}", "{seed}")),
        eval=rules.data.output.eval,
    output:
        predictions=str(FOLDER.evaluation("{run}", "{seed}") / "predictions.jsonl"),
        metrics=str(FOLDER.evaluation("{run}", "{seed}") / "metrics.json"),
        run=str(FOLDER.evaluation("{run}", "{seed}") / "run.json"),
    log:
        "<logs>/evaluate-{run}-seed{seed}.log",
    benchmark:
        "<benchmarks>/evaluate-{run}-seed{seed}.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: study.compute.threads
    resources:
        **GPU,
        mem_mb=mem_mb_train,
        runtime=runtime_train,
    params:
        study=STUDY,
        data=subpath(input.eval, parent=True),
        out=subpath(output.run, parent=True),
        evaluation=options(study.evaluation, "tie", "external"),
        sampler=options(study.rl.sampler),
        compute=COMPUTE,
        code=code("evaluate"),
    message:
        "Evaluating {wildcards.run}, seed {wildcards.seed}"
    shell:
        "exec python -m hargo evaluate --config {params.study} --seed {wildcards.seed} --model {input.model}"
        " --data {params.data} --out {params.out} > {log} 2>&1"


rule baselines:
    input:
        train=rules.data.output.train,
        eval=rules.data.output.eval,
    output:
        metrics=str(FOLDER.baselines / "metrics.json"),
        predictions=[str(FOLDER.baselines / name) for name in BASELINES.values()],
    log:
        "<logs>/baselines.log",
    benchmark:
        "<benchmarks>/baselines.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb_light,
        runtime=30,
        gpu=0,
    params:
        study=STUDY,
        data=subpath(input.train, parent=True),
        out=subpath(output.metrics, parent=True),
        code=code("baselines"),
    message:
        "Evaluating baselines without a language model"
    shell:
        "exec python -m hargo baselines --config {params.study} --data {params.data} --out {params.out} > {log} 2>&1"
