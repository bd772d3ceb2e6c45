import koffi from 'koffi'

/** Constants of libvirt-domain.h. */
const VIR_DOMAIN_STATS_STATE = 1
const LAST_ERROR_MAX = 500

type Pointer = object
/** A function of libvirt that may be called on another thread as well. */
type Foreign<A extends readonly unknown[], R> = ((...args: A) => R) & {
  async(...args: [...A, (error: unknown, result: R) => void]): void
}

export type Domain = Pointer

/**
 * One kept connection to libvirt, over its own client library in this process (libvirt.so.0, https://libvirt.org/html).
 * A call costs what it costs the C client, without the start of a program.
 */
export class Libvirt {
  readonly version: string
  readonly #connection: Pointer
  readonly #library = koffi.load('libvirt.so.0')
  readonly #define = this.#call<[Pointer, string], Pointer | null>(
    'void *virDomainDefineXML(void *conn, const char *xml)',
  )
  readonly #undefine = this.#call<[Domain], number>('int virDomainUndefine(void *domain)')
  readonly #create = this.#call<[Domain], number>('int virDomainCreate(void *domain)')
  readonly #destroy = this.#call<[Domain], number>('int virDomainDestroy(void *domain)')
  readonly #managedSave = this.#call<[Domain, number], number>(
    'int virDomainManagedSave(void *domain, unsigned int flags)',
  )
  readonly #isActive = this.#call<[Domain], number>('int virDomainIsActive(void *domain)')
  readonly #free = this.#call<[Domain], number>('int virDomainFree(void *domain)')
  readonly #stats = this.#call<[Pointer, number, [Pointer | null], number], number>(
    'int virConnectGetAllDomainStats(void *conn, unsigned int stats, _Out_ void **records, unsigned int flags)',
  )
  readonly #freeStats = this.#call<[Pointer | null], void>('void virDomainStatsRecordListFree(void *records)')
  readonly #list = this.#call<[Pointer, [Pointer | null], number], number>(
    'int virConnectListAllDomains(void *conn, _Out_ void **domains, unsigned int flags)',
  )
  readonly #state = this.#call<[Domain, [number], [number], number], number>(
    'int virDomainGetState(void *domain, _Out_ int *state, _Out_ int *reason, unsigned int flags)',
  )
  readonly #xml = this.#call<[Domain, number], string | null>(
    // `!`: the caller must free the text.
    'str! virDomainGetXMLDesc(void *domain, unsigned int flags)',
  )

  constructor(uri: string) {
    const open = this.#call<[string], Pointer | null>('void *virConnectOpen(const char *uri)')
    this.#connection = this.#checked(open(uri), `opening ${uri}`)
    const libraryVersion = this.#call<[Pointer, [number]], number>(
      'int virConnectGetLibVersion(void *conn, _Out_ unsigned long *version)',
    )
    const version: [number] = [0]
    this.#counted(libraryVersion(this.#connection, version), 'asking for the version')
    // virConnectGetLibVersion: major * 1,000,000 + minor * 1,000 + release.
    this.version = `${Math.floor(version[0] / 1e6)}.${Math.floor(version[0] / 1e3) % 1e3}.${version[0] % 1e3}`
  }

  /** Defines a persistent domain without starting it. */
  define(xml: string): Domain {
    return this.#checked(this.#define(this.#connection, xml), 'defining a domain')
  }

  undefine(domain: Domain): void {
    this.#counted(this.#undefine(domain), 'undefining a domain')
    this.#free(domain)
  }

  /** Starts it on another thread, so that this thread can wait for the guest. */
  async start(domain: Domain): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    this.#create.async(domain, (error, result) => {
      if (error === null || error === undefined) resolve(result)
      else reject(error)
    })
    if ((await promise) < 0) throw new Error('libvirt does not start the domain; what it says is above')
  }

  /** Returns when the domain's process is gone. */
  destroy(domain: Domain): void {
    this.#counted(this.#destroy(domain), 'destroying a domain')
  }

  /** Returns when the guest is saved and its process is gone; the next start resumes from there. */
  managedSave(domain: Domain): void {
    this.#counted(this.#managedSave(domain, 0), 'saving a domain')
  }

  isActive(domain: Domain): boolean {
    return this.#counted(this.#isActive(domain), 'looking at a domain') === 1
  }

  /** Reads the names and states of all domains, in one call. Returns their number. */
  listStates(): number {
    const records: [Pointer | null] = [null]
    const count = this.#stats(this.#connection, VIR_DOMAIN_STATS_STATE, records, 0)
    this.#counted(count, 'listing states')
    this.#freeStats(records[0])
    return count
  }

  /**
   * Reads configuration and state of all domains: one call for the list, and two for each domain. Returns their number.
   */
  listWhole(): number {
    const list: [Pointer | null] = [null]
    const count = this.#counted(this.#list(this.#connection, list, 0), 'listing domains')
    const domains = koffi.decode(list[0], 'void *', count) as Domain[]
    for (const domain of domains) {
      this.#checked(this.#xml(domain, 0), 'reading a domain')
      this.#counted(this.#state(domain, [0], [0], 0), 'reading a state')
      this.#free(domain)
    }
    koffi.free(list[0])
    return count
  }

  close(): void {
    this.#call<[Pointer], number>('int virConnectClose(void *conn)')(this.#connection)
  }

  #call<A extends readonly unknown[], R>(prototype: string): Foreign<A, R> {
    return this.#library.func(prototype)
  }

  #checked<T>(result: T | null, doing: string): T {
    if (result === null) throw new Error(`${doing}: ${this.#lastError()}`)
    return result
  }

  #counted(result: number, doing: string): number {
    if (result < 0) throw new Error(`${doing}: ${this.#lastError()}`)
    return result
  }

  #lastError(): string {
    return this.#call<[], string>('const char *virGetLastErrorMessage()')().slice(0, LAST_ERROR_MAX)
  }
}
