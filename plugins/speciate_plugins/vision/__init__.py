"""What the encoders of images share: decoding, cutting to size, models and their training."""
