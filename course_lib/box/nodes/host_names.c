/* Host names for the nodes of flat mode. The library is loaded into the processes of a job. In flat
   mode the kernel gives the nodes of a job no names, addresses or networks of their own.

   NODES is a list of names, each ended by a NUL; an empty name ends the list. The Nth node has the
   Nth address of NETWORK. NETWORK is a part of 127/8, which leads to the machine itself on Linux.
   Each box has a different part: all boxes number jobs from 1, and a job's number sets its port.

   No other user can reach a job. A socket that would listen on all networks listens only at the
   first of these addresses, and accepts only its own user. This matters because torchrun's store
   unpickles the data that it receives: a user who could reach it could run code in the job.

   A C library is the simplest way to do this. Loopback and a private file protect the launchers of
   the course's own recipes. In any script, however, torch opens the ranks' store on all networks.
   Only a replacement of bind(), connect() and accept() can change that. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

enum { TEXT = 16 };
static const uint32_t first = NETWORK + 1, localhost = INADDR_LOOPBACK;

/* Return the address of a node as text, and any other name unchanged. */
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

/* Called by programs that were built with -D_FORTIFY_SOURCE. */
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

/* Get the IPv4 address and port of a place, even in IPv6 notation; 0 if it has none. */
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

/* Replace the address by the first address; in IPv6, replace its last word. */
static void set_first(union place *place)
{
    uint32_t address = htonl(first);
    if (place->any.sa_family == AF_INET)
        place->four.sin_addr.s_addr = address;
    else
        memcpy(place->six.sin6_addr.s6_addr + 12, &address, 4);
}

/* Search the connections of this machine for the first one that `row` accepts. Only the last word
   of an IPv6 address is compared, because all addresses in question are loopback. */
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

/* Check whether a process of our user holds the other end of a connection. The kernel shows an
   end that is already closed as root's, without an inode. */
static int is_ours(uint32_t here, unsigned port, uint32_t there, unsigned there_port,
                   unsigned state, unsigned user, unsigned long inode, void *wanted)
{
    struct ends *ends = wanted;
    (void)state;
    return here == ends->peer && port == ends->peer_port && there == ends->own
        && there_port == ends->own_port && user == getuid() && (user || inode);
}

/* Calls in progress, in a file that no other account can open: the called port, indexed by the
   caller's port. A caller that closes its end before it is accepted has no owner any more, but its
   note in this file identifies it. The second of the two sides clears the note. */
enum { PORTS = 65536, ACCEPTED = 1 << 16 };

static _Atomic uint32_t *calls(void)
{
    static _Atomic uint32_t *table;
    int file = table ? -1 : open(CALLS, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0 && !ftruncate(file, PORTS * sizeof *table)) {
        void *found = mmap(NULL, PORTS * sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        table = found == MAP_FAILED ? NULL : found;
    }
    if (file >= 0)
        close(file);
    return table;
}

static int ends_of(int connection, struct ends *ends)
{
    union place own, peer;
    socklen_t own_length = sizeof own, peer_length = sizeof peer;
    return !getsockname(connection, &own.any, &own_length)
        && !getpeername(connection, &peer.any, &peer_length)
        && four_of(&own, &ends->own, &ends->own_port)
        && four_of(&peer, &ends->peer, &ends->peer_port);
}

static void note_call(int connection)
{
    struct ends ends;
    if (!ends_of(connection, &ends) || ntohl(ends.peer) / ADDRESSES != first / ADDRESSES || !calls())
        return;
    uint32_t accepted = ends.peer_port | ACCEPTED;
    if (!atomic_compare_exchange_strong(&calls()[ends.own_port], &accepted, 0))
        atomic_store(&calls()[ends.own_port], ends.peer_port);
}

static int is_from_our_user(int connection)
{
    struct ends ends;
    if (!ends_of(connection, &ends))
        return 1; /* not a network connection */
    int ours = any_row(is_ours, &ends) != 0;
    if (calls()) {
        uint32_t called = ends.own_port;
        if (atomic_compare_exchange_strong(&calls()[ends.peer_port], &called, 0))
            return 1;
        if (ours)
            atomic_store(&calls()[ends.peer_port], ends.own_port | ACCEPTED);
    }
    return ours;
}

/* Replace "all networks" by the first address, for a socket that will listen. */
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
        bind(descriptor, &place.any, length); /* otherwise the kernel chooses all networks */
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

/* Check whether a call must go to the first address. A node that listens on "all networks" listens
   there, but is called at its own address or as localhost. */
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
    note_call(descriptor);
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
        close(connection); /* from another account: ignore the call */
        errno = saved;
    }
}

int accept(int descriptor, struct sockaddr *from, socklen_t *length)
{
    return accept4(descriptor, from, length, 0);
}
