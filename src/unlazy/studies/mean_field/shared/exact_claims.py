"""The claims of `mfld-exact`, with their criteria."""

from __future__ import annotations

from unlazy.lab import Claim, at_most, between, relative_deviation, slope
from unlazy.studies.mean_field.shared.exact_checks import (
    RULE,
    batch_bias,
    exact_width_excess,
    knee_exponent,
    mean_rates,
    moment_deviations,
    reshuffled_share,
    step_bias,
    variance_rates,
    width_deviation,
    width_excess,
)

BOUND = "Suzuki, Wu & Nitanda 2023, uniform-in-time bound"
FIXED = {name: between(number, number) for name, number in RULE.items()}
"""Claims about closed forms alone are about these numbers, so that a run with others does not test them."""

CLAIMS = (
    Claim(
        "moments",
        "problem Q, closed form",
        "At every checkpoint the variance of deviations and that of the particles' mean are as predicted within 10%, "
        "and the mean within 10% of its distance from the optimum at the start, or of the optimal law's deviation if "
        "that is larger.",
        between(-0.1, 0.1),
        statistic=moment_deviations,
        parts=("decay",),
    ),
    Claim(
        "mean-rate",
        "Nitanda, Wu & Suzuki 2022; Chizat 2022",
        "The mean's part of L - L* decays at the rate 2(a+b), within 5%; at b = 0 that is the bound "
        "2 lambda_2/alpha, attained.",
        between(0.95, 1.05),
        statistic=mean_rates,
        parts=("decay",),
        needs={"interaction": 2},
    ),
    Claim(
        "variance-rate",
        "problem Q, closed form",
        "The variance's part of L - L*, of second order in v - v*, decays at the rate 4a, within 5%.",
        between(0.95, 1.05),
        statistic=variance_rates,
        parts=("decay",),
        needs={"interaction": 2},
    ),
    Claim(
        "width",
        "problem Q, closed form",
        "N times what N particles add to L is the same number for every N at every time from the start, that of "
        "the closed form, within 10%.",
        between(-0.1, 0.1),
        statistic=width_deviation,
        parts=("decay",),
        needs={"interaction": 2, "particles": 2},
    ),
    Claim(
        "uniform",
        "Chen, Ren & Wang 2022; Suzuki, Wu & Nitanda 2023",
        "N times what N particles add to L never exceeds, by more than 10%, the larger of its values at the start, "
        "b v0/2, and at the end, (lambda_2/2) log((a+b)/a): for every N, at every time from the start.",
        at_most(1.1),
        statistic=width_excess,
        parts=("decay",),
        needs={"interaction": 2, "particles": 2},
    ),
    Claim(
        "uniform-exact",
        "Chen, Ren & Wang 2022; Suzuki, Wu & Nitanda 2023",
        "In the closed form with steps of 0.01 the excess is at most 1e-4 of it, for N = 10 and 100 and for starts "
        "from narrow to wide (v0 from 0.01 to 5).",
        at_most(1.0001),
        theory=lambda _: exact_width_excess(),
        parts=("decay",),
        needs=FIXED,
    ),
    Claim(
        "energy-step",
        BOUND,
        "The bias of F is linear in the step: its exponent is in [0.85, 1.25].",
        between(0.85, 1.25),
        statistic=lambda part: slope(step_bias(part, "energy"), "step_size"),
        parts=("step",),
        needs={"step_size": 3},
    ),
    Claim(
        "free-energy-step",
        BOUND,
        "The bias of L is quadratic in the step, below the bound's linear term: its exponent is in [1.8, 2.3].",
        between(1.8, 2.3),
        statistic=lambda part: slope(step_bias(part, "free energy"), "step_size"),
        parts=("step",),
        needs={"step_size": 3},
    ),
    Claim(
        "batch-bias",
        "problem Q, closed form",
        "Mini-batches add eta s2/(2(2 - eta(a+b))) to F if drawn anew at every step, and what the recursion over "
        "an epoch gives if cut from one permutation, within 10%.",
        between(-0.1, 0.1),
        statistic=lambda part: relative_deviation(
            batch_bias(part, part.simulated.mean("seed")), batch_bias(part, part.predicted)
        ),
        parts=("batch",),
        needs={"step_size": 3},
    ),
    Claim(
        "batch-step",
        BOUND,
        "The bias of mini-batches drawn anew is linear in the step, below the bound's sqrt(eta): its exponent is "
        "in [0.9, 1.25].",
        between(0.9, 1.25),
        statistic=lambda part: slope(
            batch_bias(part, part.simulated.mean("seed")).sel(batches="independent"), "step_size"
        ),
        parts=("batch",),
        needs={"step_size": 3, "batches": ("independent",)},
    ),
    Claim(
        "reshuffling",
        "recursion over an epoch",
        "Where an epoch is shorter than the relaxation time of the mean, eta(a+b) n/B < 1, one permutation per "
        "epoch leaves at most half of the bias of batches drawn anew.",
        at_most(0.5),
        statistic=reshuffled_share,
        parts=("batch",),
        needs={"batches": ("independent", "reshuffled"), "step_size": at_most(0.06)},
    ),
    Claim(
        "batch-rule",
        "Suzuki, Wu & Nitanda 2023, optimal mini-batch",
        "The largest batch within 1.5 times the least cost of a free energy within eps of the optimum grows like "
        "eps^(-1/2): its exponent in 1/eps is in [0.45, 0.65].",
        between(0.45, 0.65),
        theory=lambda _: knee_exponent("free energy", 1.0),
        parts=("decay",),
        needs=FIXED,
    ),
    Claim(
        "batch-rule-energy",
        "Suzuki, Wu & Nitanda 2023, optimal mini-batch",
        "The same if F, and not the free energy, must be within eps.",
        between(0.45, 0.65),
        theory=lambda _: knee_exponent("energy", 1.0),
        parts=("decay",),
        needs=FIXED,
        known_negative="the bias of F is linear in the step, like that of batches: the knee stays where it is",
    ),
    Claim(
        "batch-rule-start",
        "Suzuki, Wu & Nitanda 2023, optimal mini-batch",
        "The same from a start whose variance, 0.5, is close to the optimum's 0.4.",
        between(0.45, 0.65),
        theory=lambda _: knee_exponent("free energy", 0.5),
        parts=("decay",),
        needs=FIXED,
        known_negative="at these errors the variance hardly has to move, and the fast mean sets the steps",
    ),
)
