/* Preloaded into a program, this prints what it gives to getopt: its own table of options. Nothing of the program runs after that. */
#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

static int note(const char *letters, const struct option *names) {
    printf("%s", letters);
    for (; names && names->name; names++)
        printf("\t%s%s", names->name, names->has_arg == 2 ? "?" : names->has_arg ? "=" : "");
    printf("\n");
    fflush(stdout);
    _exit(0);
}

int getopt(int count, char *const words[], const char *letters) { return note(letters, 0); }
int getopt_long(int count, char *const words[], const char *letters, const struct option *names, int *index) { return note(letters, names); }
int getopt_long_only(int count, char *const words[], const char *letters, const struct option *names, int *index) { return note(letters, names); }
