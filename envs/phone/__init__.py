"""The embedded phone: an Android look-alike in pure Python, driven through the same shell commands as a real one."""
