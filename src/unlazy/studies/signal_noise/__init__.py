"""Signal and noise: what a network learns of its data, the feature that classes share or each sample's own noise."""
