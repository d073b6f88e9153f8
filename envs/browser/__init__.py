"""Pages of Chromium as devices: a phone's viewport, touch and keyboard, and a tree of elements like Android's."""
