"""What the laws and the other tests go over: lists of cases, and how they are compared."""
