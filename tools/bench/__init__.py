"""`make bench`: what ask-gpt costs on this machine, next to what the same work costs without it. One module for each theme.

Times of whole processes are processor time where an aim is judged (a busy machine changes it least), and everything that is compared is
measured in turns within one run. Stores are made with a seed, in the real formats, in temporary folders.
"""
