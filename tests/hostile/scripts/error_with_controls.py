# Fails with line ends, controls and markup in its message.
raise ValueError("one\ntwo\x1b[2J\x00<script>alert(1)</script>\u202e\u2028")
