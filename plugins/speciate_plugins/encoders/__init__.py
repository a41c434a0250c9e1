"""Images to feature vectors."""
