/* Host names for nodes that are none: loaded into the processes of a job in flat mode, where the
   kernel gives the nodes of a job neither names nor addresses nor a network of their own.

   NODES is a list of names, each ended by a NUL, itself ended by an empty one. The Nth has the Nth
   address of NETWORK, a part of 127/8, which on Linux leads to the machine itself as a whole. Each
   box has another part: all number their jobs from 1, and a port follows from the number of a job.

   Nor does anybody else reach a job: what would listen on all networks of the machine listens at
   the first of these addresses, and hears its own user alone. torchrun's store unpickles what it is
   sent, so who could reach it would run code in the job. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

enum { TEXT = 16 };
static const uint32_t first = NETWORK + 1, localhost = INADDR_LOOPBACK;

/* The address of a node as text; any other name as it is. */
static const char *address(const char *name, char text[TEXT])
{
    struct in_addr found = {htonl(first)};
    for (const char *node = NODES; name && *node; node += strlen(node) + 1) {
        if (strcasecmp(node, name) == 0)
            return inet_ntop(AF_INET, &found, text, TEXT);
        found.s_addr = htonl(ntohl(found.s_addr) + 1);
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

enum { LISTENING = 10 };

union place {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

/* The IPv4 address and port of a place, also of one that IPv6 writes; 0 where it has none. */
static int four_of(const union place *place, uint32_t *address, unsigned *port)
{
    if (place->any.sa_family == AF_INET) {
        *address = place->four.sin_addr.s_addr;
        *port = ntohs(place->four.sin_port);
        return 1;
    }
    if (place->any.sa_family != AF_INET6)
        return 0;
    memcpy(address, place->six.sin6_addr.s6_addr + 12, 4);
    *port = ntohs(place->six.sin6_port);
    return 1;
}

/* The first address in the place of what stands there, in IPv6 as its last word. */
static void set_first(union place *place)
{
    uint32_t address = htonl(first);
    if (place->any.sa_family == AF_INET)
        place->four.sin_addr.s_addr = address;
    else
        memcpy(place->six.sin6_addr.s6_addr + 12, &address, 4);
}

/* Looks through the connections of this machine; `row` stops at the first that it says yes to.
   Of an IPv6 address only the last word counts: all that we ask about is loopback. */
typedef int row_check(uint32_t here, unsigned port, uint32_t there, unsigned there_port,
                      unsigned state, unsigned user, unsigned long inode, void *wanted);

static int any_row(row_check *row, void *wanted)
{
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    int opened = 0;
    for (int number = 0; number < 2; number++) {
        FILE *table = fopen(tables[number], "re");
        char line[512], here[33], there[33];
        if (!table)
            continue;
        opened = 1;
        while (fgets(line, sizeof line, table)) {
            unsigned port, there_port, state, user;
            unsigned long inode;
            if (sscanf(line, " %*d: %32[0-9A-F]:%x %32[0-9A-F]:%x %x %*x:%*x %*x:%*x %*x %u %*d %lu",
                       here, &port, there, &there_port, &state, &user, &inode) != 7)
                continue;
            uint32_t last_here = strtoul(here + strlen(here) - 8, NULL, 16);
            uint32_t last_there = strtoul(there + strlen(there) - 8, NULL, 16);
            if (row(last_here, port, last_there, there_port, state, user, inode, wanted)) {
                fclose(table);
                return 1;
            }
        }
        fclose(table);
    }
    return opened ? 0 : -1;
}

struct ends {
    uint32_t peer, own;
    unsigned peer_port, own_port;
};

/* The other end of a connection, held by a process of our user. The kernel shows one that was
   closed already as root's, without an inode. */
static int is_ours(uint32_t here, unsigned port, uint32_t there, unsigned there_port,
                   unsigned state, unsigned user, unsigned long inode, void *wanted)
{
    struct ends *ends = wanted;
    (void)state;
    return here == ends->peer && port == ends->peer_port && there == ends->own
        && there_port == ends->own_port && user == getuid() && (user || inode);
}

/* A caller of this job may send a line and be gone before anybody takes the call: then the kernel no
   longer tells whose it was. So each leaves a file, named after its end of the connection and the
   port that it calls, in a folder of the job that no other account can enter; who takes the call
   removes it. One that nobody of the job takes stays, but tells of no other port. */
static int file_of(const union place *caller, unsigned called_port, char path[PATH_MAX])
{
    const char *folder = getenv("COURSE_BOX_CALLERS");
    uint32_t address;
    unsigned port;
    return folder && *folder && four_of(caller, &address, &port)
        && snprintf(path, PATH_MAX, "%s/%08x-%u-%u", folder, address, port, called_port) < PATH_MAX;
}

static void leave_file(int connection, const struct sockaddr *asked, socklen_t asked_length)
{
    union place own, called = {0};
    socklen_t length = sizeof own;
    char path[PATH_MAX];
    uint32_t address;
    unsigned port;
    int file;
    memcpy(&called, asked, asked_length < sizeof called ? asked_length : sizeof called);
    if (four_of(&called, &address, &port)
        && !getsockname(connection, &own.any, &length) && file_of(&own, port, path)
        && (file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) >= 0)
        close(file);
}

static int is_from_our_user(int connection)
{
    char path[PATH_MAX];
    union place own, peer;
    struct ends ends;
    socklen_t own_length = sizeof own, peer_length = sizeof peer;
    if (getsockname(connection, &own.any, &own_length)
        || getpeername(connection, &peer.any, &peer_length)
        || !four_of(&own, &ends.own, &ends.own_port) || !four_of(&peer, &ends.peer, &ends.peer_port))
        return 1; /* no network connection */
    int is_seen = any_row(is_ours, &ends) != 0; /* first: who is gone then has left its file before */
    return (file_of(&peer, ends.own_port, path) && !unlink(path)) || is_seen;
}

/* The first address in place of "all networks", for what will listen. */
static int narrowed(int descriptor, const struct sockaddr *asked, socklen_t length,
                    union place *place)
{
    int kind = 0, alone = 0;
    socklen_t size = sizeof kind;
    if (length < sizeof place->four || length > sizeof *place
        || getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &kind, &size) || kind != SOCK_STREAM)
        return 0;
    memcpy(place, asked, length);
    if (place->any.sa_family == AF_INET && place->four.sin_addr.s_addr == htonl(INADDR_ANY)) {
        set_first(place);
        return 1;
    }
    if (place->any.sa_family != AF_INET6 || length < sizeof place->six
        || !IN6_IS_ADDR_UNSPECIFIED(&place->six.sin6_addr))
        return 0;
    size = sizeof alone;
    getsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &alone, &size);
    inet_pton(AF_INET6, alone ? "::1" : "::ffff:0.0.0.0", &place->six.sin6_addr);
    if (!alone)
        set_first(place);
    return 1;
}

int bind(int descriptor, const struct sockaddr *asked, socklen_t length)
{
    REAL(bind);
    union place place;
    int saved = errno;
    int is_other = asked && narrowed(descriptor, asked, length, &place);
    errno = saved;
    return real(descriptor, is_other ? &place.any : asked, length);
}

int listen(int descriptor, int backlog)
{
    REAL(listen);
    union place place;
    socklen_t length = sizeof place;
    uint32_t address;
    unsigned port = 1;
    int saved = errno;
    if (!getsockname(descriptor, &place.any, &length) && four_of(&place, &address, &port) && !port)
        bind(descriptor, &place.any, length); /* or the kernel would choose all networks */
    errno = saved;
    return real(descriptor, backlog);
}

static int is_listener(uint32_t here, unsigned port, uint32_t there, unsigned there_port,
                       unsigned state, unsigned user, unsigned long inode, void *wanted)
{
    struct ends *ends = wanted;
    (void)there, (void)there_port, (void)user, (void)inode;
    return state == LISTENING && port == ends->peer_port && here == ends->peer;
}

/* A node that listens on "all networks" is found at the first address, whatever its own, and as
   localhost. */
static int is_found_at_first(const union place *asked)
{
    struct ends ends;
    if (!four_of(asked, &ends.peer, &ends.peer_port))
        return 0;
    uint32_t address = ntohl(ends.peer);
    int is_of_box = address / ADDRESSES == first / ADDRESSES && address != first;
    if ((!is_of_box && address != localhost) || any_row(is_listener, &ends))
        return 0;
    ends.peer = htonl(first);
    return any_row(is_listener, &ends) == 1;
}

int connect(int descriptor, const struct sockaddr *asked, socklen_t length)
{
    REAL(connect);
    union place place;
    int saved = errno;
    if (asked && length >= sizeof place.four && length <= sizeof place) {
        memcpy(&place, asked, length);
        if (is_found_at_first(&place)) {
            set_first(&place);
            asked = &place.any;
        }
    }
    errno = saved;
    int failed = real(descriptor, asked, length);
    saved = errno;
    if (asked && asked->sa_family != AF_UNIX && (!failed || saved == EINPROGRESS))
        leave_file(descriptor, asked, length);
    errno = saved;
    return failed;
}

int accept4(int descriptor, struct sockaddr *from, socklen_t *length, int flags)
{
    REAL(accept4);
    socklen_t room = length ? *length : 0;
    for (;;) {
        if (length)
            *length = room;
        int connection = real(descriptor, from, length, flags);
        int saved = errno;
        if (connection < 0 || is_from_our_user(connection)) {
            errno = saved;
            return connection;
        }
        close(connection); /* of another account: as if nobody had called */
        errno = saved;
    }
}

int accept(int descriptor, struct sockaddr *from, socklen_t *length)
{
    return accept4(descriptor, from, length, 0);
}
