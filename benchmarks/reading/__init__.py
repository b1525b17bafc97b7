"""How much must one read to follow a call?"""
