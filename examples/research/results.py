"""The results that the agents of the pipeline hand over: JSON artifacts with a `kind`, validated on arrival."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from examples import handover

MADE_UP = "A demonstration: papers, targets, molecules and sample data are made up, and nothing here is a real finding."

SCREENING_CHART = "screening-chart.png"
EXPRESSION_CHART = "expression-chart.png"
VALIDATION_CHART = "validation-chart.png"
CAPTIONS = {
    SCREENING_CHART: "Hedges' g of each compound and dose against the negative control, with its 95 % interval; "
    "hits are dark.",
    EXPRESSION_CHART: "Each dot is a gene: how far it moved, and how clearly. Genes that changed are dark.",
    VALIDATION_CHART: "Responses to doses, in percent of the vehicle, with the fitted curves and their IC50.",
}
"""The captions of the charts by file name."""

Short = Annotated[handover.Line, Field(max_length=200)]
Long = Annotated[handover.Line, Field(max_length=2_000)]
Modality = Literal["small molecules", "biologics"]
Many = 5_000


class Piece(BaseModel):
    model_config = ConfigDict(frozen=True)


class Result(handover.Result):
    """A result of one of the pipeline's agents."""

    note: Long = MADE_UP


class Source(Piece):
    """A file that figures were computed from."""

    file: Short
    sha256: Short
    rows: int


class Paper(Piece):
    id: Short
    title: Short
    year: int
    target: Short
    supports: bool
    evidence: Short
    finding: Long


class TargetEvidence(Piece):
    """`score` is the sum of the papers' weights, those that contradict counted against it."""

    target: Short
    what: Short
    inside: bool
    score: int
    supporting: list[Short] = []
    contradicting: list[Short] = []


class LiteratureReview(Result):
    MAKER = "Literature (`research-literature`)"

    kind: Literal["literature-review"] = "literature-review"
    subject: Short
    marker: Short
    papers: list[Paper] = Field(max_length=Many)
    targets: list[TargetEvidence] = Field(max_length=100)
    corpus: Source


class Hypothesis(Piece):
    id: Short
    target: Short
    statement: Long
    score: int
    papers: list[Short]


class SetAside(Piece):
    name: Short
    why: Long


class Hypotheses(Result):
    MAKER = "Hypotheses (`research-hypotheses`)"

    kind: Literal["hypotheses"] = "hypotheses"
    subject: Short
    marker: Short
    modality: Modality
    hypotheses: list[Hypothesis] = Field(min_length=1, max_length=100)
    set_aside: list[SetAside] = []


class ScreeningAssay(Result):
    MAKER = "Assay design (`research-assays`)"

    kind: Literal["screening-assay"] = "screening-assay"
    target: Short
    marker: Short
    cell_line: Short
    cells: Short
    hours: int
    seeded_per_well: int
    replicates: int
    doses_um: list[float]
    columns: list[Short]


class Molecule(Piece):
    """`figures` are its computed and listed properties, by name; `rank_by` is what it was ranked by."""

    id: Short
    figures: dict[str, float]
    rank_by: float


class Selection(Result):
    MAKER = "Molecules (`research-molecules`)"

    kind: Literal["selection"] = "selection"
    target: Short
    modality: Modality
    rules: list[Long]
    chosen: list[Molecule] = Field(max_length=Many)
    refused: list[SetAside] = Field(max_length=Many)
    library: Source


class ScreeningGroup(Piece):
    """One compound at one dose. `g` is positive if the compound acts like the positive control."""

    compound: Short
    dose_um: float
    replicates: int
    mean: float
    inhibition: float
    g: float
    low: float
    high: float
    p: float
    q: float
    hit: bool


class ScreeningAnalysis(Result):
    MAKER = "Data analysis (`research-analysis`)"

    kind: Literal["screening-analysis"] = "screening-analysis"
    source: Source
    z_prime: float
    usable: bool
    rules: list[Long]
    groups: list[ScreeningGroup] = Field(max_length=Many)
    hits: list[Short] = Field(max_length=Many)
    notes: list[Long] = []


class Condition(Piece):
    compound: Short
    dose_um: float


class FollowUpDesign(Result):
    MAKER = "Assay design (`research-assays`)"

    kind: Literal["follow-up-design"] = "follow-up-design"
    subject: Short
    conditions: list[Condition] = Field(min_length=1, max_length=100)
    replicates: int
    hours: int
    pathway_genes: list[Short]
    stress_genes: list[Short]
    columns: list[Short]


class GeneChange(Piece):
    compound: Short
    gene: Short
    log2_fold_change: float
    p: float
    q: float


class Signature(Piece):
    """What a compound does to the genes: `pathway_down` of `pathway_measured` genes that drive the disease fell."""

    compound: Short
    tested: int
    changed: int
    pathway_measured: int
    pathway_down: int
    stress_up: list[Short]
    elsewhere: int


class ExpressionAnalysis(Result):
    MAKER = "Data analysis (`research-analysis`)"

    kind: Literal["expression-analysis"] = "expression-analysis"
    source: Source
    rules: list[Long]
    signatures: list[Signature] = Field(max_length=100)
    changes: list[GeneChange] = Field(max_length=Many)
    notes: list[Long] = []


class Candidate(Piece):
    compound: Short
    score: float
    inhibition: float
    dose_um: float
    pathway_share: float
    elsewhere: int


class Candidates(Result):
    MAKER = "Candidates (`research-candidates`)"

    kind: Literal["candidates"] = "candidates"
    rules: list[Long]
    candidates: list[Candidate] = Field(min_length=1, max_length=100)
    set_aside: list[SetAside] = []


class ValidationAssay(Result):
    MAKER = "Assay design (`research-assays`)"

    kind: Literal["validation-assay"] = "validation-assay"
    compounds: list[Short] = Field(min_length=1, max_length=100)
    doses_um: list[float]
    replicates: int
    columns: list[Short]


class Curve(Piece):
    """A compound's dose-response; the figures of a curve that could not be fitted are None."""

    compound: Short
    ic50_um: float | None
    low: float | None
    high: float | None
    hill: float | None
    r_squared: float | None
    most: float
    confirmed: bool
    why: Long


class ValidationAnalysis(Result):
    MAKER = "Data analysis (`research-analysis`)"

    kind: Literal["validation-analysis"] = "validation-analysis"
    source: Source
    rules: list[Long]
    curves: list[Curve] = Field(max_length=100)
    confirmed: list[Short]
    notes: list[Long] = []
