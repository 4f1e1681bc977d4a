"""What each provider's API refuses, as its documentation and its error messages say it: a request's
body in, what is wrong with it out.

Each API's own is a module here, with the entry `broken`. None of our code is used.
"""
