"""MiniWoB++ on pages of Chromium."""
