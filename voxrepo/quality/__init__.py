"""What can be measured of speech without listening: levels of one utterance, and how two of one text differ."""
