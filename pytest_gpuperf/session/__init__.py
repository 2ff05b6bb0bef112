"""What one pytest process knows and does about benchmarks: measuring, judging, confirming, closing the session."""
