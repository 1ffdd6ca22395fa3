"""Signal against noise in two-patch data: which of them a network learns, and when."""

from typing import TYPE_CHECKING

from unlazy.doors import lazily

if TYPE_CHECKING:
    from unlazy.theory.signal_noise.denoising import (
        DenoiserBalance,
        DenoisingLoss,
        StationaryPoint,
        denoiser_balance,
        denoising_loss,
        early_denoiser_balance,
        symmetric_minimum,
        symmetric_stationary_point,
    )
    from unlazy.theory.signal_noise.graphs import graph_gain
    from unlazy.theory.signal_noise.growth import GrowthRates, blow_up_time, growth_rates, power_growth
    from unlazy.theory.signal_noise.label_flips import (
        LabelFlipDescent,
        Plateau,
        label_flip_descent,
        label_noise_plateau,
    )
    from unlazy.theory.signal_noise.label_noise import LabelNoiseDescent, fits_clean_labels_first, label_noise_descent
    from unlazy.theory.signal_noise.relu_overfitting import (
        ActivePairs,
        SmallStart,
        active_pairs,
        averaging_classifier_error,
        averaging_error,
        relu_error,
        small_start_error,
        xor_level,
    )
    from unlazy.theory.signal_noise.sharpness import SamOutcome, deactivating_radius, sam_error, sam_threshold
    from unlazy.theory.signal_noise.sign_descent import (
        kept_signal,
        memorised_test_loss,
        memorising_ridge,
        noise_token_attention,
        reversing_adversary,
        sign_descent_balance,
    )
    from unlazy.theory.signal_noise.strategies import (
        FeatureBalance,
        MixupGrowth,
        MomentumGrowth,
        StableOutput,
        feature_balance,
        mixup_growth,
        momentum_growth,
        stable_output,
    )
    from unlazy.theory.signal_noise.trained_denoiser import SpreadDenoiser, spread_denoiser
    from unlazy.theory.signal_noise.two_patches import (
        ContrastiveRates,
        Race,
        benign_probability,
        contrastive_rates,
        contrastive_threshold,
        race,
    )

lazily(__name__)
