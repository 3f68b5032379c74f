# Tables, figures and pages from everything above.


rule report:
    input:
        manifest=rules.data.output.manifest,
        audit=rules.audit.output.json,
        evaluations=expand(
            rules.evaluate.output, method=["sft", *METHODS], seed=study.seeds
        ),
        training=expand(rules.train.output.metrics, method=METHODS, seed=study.seeds),
        sft=expand(rules.sft.output.metrics, seed=study.seeds),
        baselines=rules.baselines.output,
        external=(
            expand(rules.external.output, method=["sft", *METHODS], seed=study.seeds)
            if EXTERNAL
            else []
        ),
    output:
        summary=report(
            "<results>/report/summary.csv",
            caption="../report/headline.rst",
            category="Results",
            labels={"table": "headline"},
        ),
        per_task=report(
            "<results>/report/per_task.csv",
            caption="../report/per_task.rst",
            category="Results",
            labels={"table": "per task"},
        ),
        ablation=report(
            "<results>/report/ablation.csv",
            caption="../report/ablation.rst",
            category="Results",
            labels={"table": "ablation"},
        ),
        heterogeneity=report(
            "<results>/report/heterogeneity.csv",
            caption="../report/heterogeneity.rst",
            category="Results",
            labels={"table": "heterogeneity"},
        ),
        figures=report(
            directory("<results>/report/figures"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        html=report(
            "<results>/report/report.html",
            caption="../report/report.rst",
            category="Report",
            labels={"page": "full report"},
        ),
        text="<results>/report/report.md",
        evidence="<results>/report/evidence.csv",
        similarity="<results>/report/similarity.csv",
    log:
        "<logs>/report.log",
    benchmark:
        "<benchmarks>/report.tsv"
    conda:
        "../envs/hargo.yaml"
    threads: 1
    resources:
        mem_mb=mem_mb_light,
        runtime=30,
        gpu=0,
    params:
        study=STUDY,
        results=subpath(input.manifest, ancestor=2),
        out=subpath(output.html, parent=True),
        shown=report_options(),
        code=code("report"),
    message:
        "Writing the report to {output.html}"
    shell:
        "exec python -m hargo report --config {params.study} --results {params.results} --out {params.out} > {log} 2>&1"
