"""MobileGym on pages of Chromium."""
