/* Host names for nodes that are none: loaded into the processes of a job in flat mode, where the
   kernel gives the nodes of a job neither names nor addresses of their own.

   NODES is a list of names, each ended by a NUL, itself ended by an empty one. The Nth has the
   address 127.0.0.N: on Linux all of 127/8 leads to the machine itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

enum { TEXT = 16 };

/* The address of a node as text; any other name as it is. */
static const char *address(const char *name, char text[TEXT])
{
    int number = 1;
    for (const char *node = NODES; name && *node; node += strlen(node) + 1, number++)
        if (strcasecmp(node, name) == 0) {
            snprintf(text, TEXT, "127.0.%d.%d", (number >> 8) & 255, number & 255);
            return text;
        }
    return name;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    REAL(getaddrinfo);
    char text[TEXT];
    const char *asked = address(name, text);
    int failed = real(asked, service, hints, found);
    if (!failed && asked != name && (*found)->ai_canonname) {
        free((*found)->ai_canonname);
        (*found)->ai_canonname = strdup(name);
    }
    return failed;
}

struct hostent *gethostbyname(const char *name)
{
    REAL(gethostbyname);
    char text[TEXT];
    return real(address(name, text));
}

struct hostent *gethostbyname2(const char *name, int family)
{
    REAL(gethostbyname2);
    char text[TEXT];
    return real(family == AF_INET ? address(name, text) : name, family);
}

int gethostbyname_r(const char *name, struct hostent *host, char *buffer, size_t length,
                    struct hostent **found, int *error)
{
    REAL(gethostbyname_r);
    char text[TEXT];
    return real(address(name, text), host, buffer, length, found, error);
}

int gethostbyname2_r(const char *name, int family, struct hostent *host, char *buffer,
                     size_t length, struct hostent **found, int *error)
{
    REAL(gethostbyname2_r);
    char text[TEXT];
    const char *asked = family == AF_INET ? address(name, text) : name;
    return real(asked, family, host, buffer, length, found, error);
}

int gethostname(char *name, size_t length)
{
    REAL(gethostname);
    const char *node = getenv("SLURMD_NODENAME");
    if (!node)
        return real(name, length);
    if (strlen(node) >= length) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(name, node);
    return 0;
}

/* What programs that were built with -D_FORTIFY_SOURCE call instead. */
int __gethostname_chk(char *name, size_t length, size_t space)
{
    if (length > space)
        abort();
    return gethostname(name, length);
}

int uname(struct utsname *system)
{
    REAL(uname);
    const char *node = getenv("SLURMD_NODENAME");
    int failed = real(system);
    if (!failed && node && strlen(node) < sizeof system->nodename)
        strcpy(system->nodename, node);
    return failed;
}
