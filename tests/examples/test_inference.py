"""The pipeline's statistics match hand calculations and tables."""

from __future__ import annotations

import math

import pytest

from examples.research.statistics import NoSpread, false_discovery_rates, fit_curve, hedges, two_sided, welch, z_prime

LOW, HIGH = [1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]


def test_student_s_distribution_is_that_of_the_tables_and_exact_where_it_has_a_simple_form() -> None:
    for t, freedom, p in ((0.0, 5, 1.0), (12.7062, 1, 0.05), (4.6041, 4, 0.01), (-2.2281, 10, 0.05), (1.96, 1e7, 0.05)):
        assert two_sided(t, freedom) == pytest.approx(p, abs=2e-5), (t, freedom)
    for t in (0.1, 1.0, 30.0, 1000.0):
        assert two_sided(t, 1) == pytest.approx(2 / math.pi * math.atan(1 / t), rel=1e-9)
        assert two_sided(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), rel=1e-6)


def test_hedges_g_and_its_interval() -> None:
    effect = hedges(HIGH, LOW)  # d = 2 / 1.29099; J = 1 - 3 / 23; error = sqrt(8/16 + g²/16)
    assert (effect.g, effect.low, effect.high) == pytest.approx((1.347125, -0.187943, 2.882192), abs=1e-6)
    assert hedges(LOW, HIGH).g == -effect.g


def test_welch_takes_off_degrees_of_freedom_where_variances_differ() -> None:
    found = welch(HIGH, LOW)
    assert (found.t, found.freedom, found.p) == pytest.approx((2.190890, 6, 0.070988), abs=1e-6)
    found = welch([10.0, 12.0, 14.0], [20.0, 30.0, 40.0])
    assert found.t == pytest.approx(-18 / math.sqrt(104 / 3))
    assert found.freedom == pytest.approx(2.15975, abs=1e-4)


def test_nothing_is_inferred_where_nothing_varies() -> None:
    for test, values in ((hedges, ([1.0, 1.0], [2.0, 2.0])), (z_prime, ([1.0, 3.0], [2.0, 2.0]))):
        with pytest.raises(NoSpread):
            test(*values)
    with pytest.raises(NoSpread):
        welch([1.0, 1.0], [2.0, 2.0])


def test_many_tests_are_corrected_as_benjamini_and_hochberg_do() -> None:
    assert false_discovery_rates([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert false_discovery_rates([0.9, 0.8]) == pytest.approx([0.9, 0.9])
    assert (false_discovery_rates([0.03]), false_discovery_rates([])) == ([0.03], [])


def curve(ic50: float, hill: float, top: float = 100.0, bottom: float = 10.0) -> list[tuple[float, float]]:
    doses = [10 ** (step / 2) for step in range(-3, 5)]
    return [(dose, bottom + (top - bottom) / (1 + (dose / ic50) ** hill)) for dose in doses for _ in range(2)]


def test_the_curve_is_found_that_points_lie_on() -> None:
    for ic50, hill in ((0.4, 1.0), (5.0, 2.0), (30.0, 0.8)):
        fit = fit_curve(curve(ic50, hill))
        assert fit is not None
        assert (fit.ic50, fit.hill, fit.top, fit.bottom) == pytest.approx((ic50, hill, 100, 10), rel=0.01)
        assert fit.r_squared > 0.9999
        assert fit.low <= fit.ic50 <= fit.high
        assert fit.at(fit.ic50) == pytest.approx((fit.top + fit.bottom) / 2)


def test_the_interval_is_wider_where_points_scatter_and_no_curve_goes_through_what_does_not_differ() -> None:
    scattered = [(dose, response + (4 if at % 2 else -4)) for at, (dose, response) in enumerate(curve(2.0, 1.0))]
    exact, rough = fit_curve(curve(2.0, 1.0)), fit_curve(scattered)
    assert exact is not None
    assert rough is not None
    assert rough.high / rough.low > 1.1 > exact.high / exact.low
    assert rough.low < 2.0 < rough.high
    assert fit_curve([(dose, 50.0) for dose, _ in curve(1.0, 1.0)]) is None
    assert fit_curve([(1.0, 50.0), (1.0, 60.0)]) is None
