import { ConsoleConnection } from '../../client/console/console-connection.ts'
import { limits } from '../../config/limits.ts'
import { sleep } from '../browser/sleep.ts'
import { browserLinks } from './browser-links.ts'
import { statusOfClose, statusOfLoss, statusOfRefusal, takesInput } from './status.ts'
import type { ConsoleEvent, ConsoleRequest } from '../../client/console/console-connection.ts'
import type { Attachment, ConsoleGuest, WindowSize } from '../../core/console/console-viewer.ts'
import type { Status } from './status.ts'

/** The part of the page that shows a console and takes input. */
export type Display = {
  /** Bytes of output that were taken and are not drawn yet. */
  readonly waiting: number
  /** Resolves when all output is drawn. */
  drawn(): Promise<void>
  /** Begins a session; `sameAsBefore` if its output is shown already. */
  begin(session: Attachment | undefined, sameAsBefore: boolean): void
  output(bytes: Uint8Array): void
  status(status: Status): void
}

/** Keeps a display connected to one console for as long as that is possible. */
export class Connection {
  readonly #display: Display
  readonly #console: ConsoleConnection
  #isAttached = false
  #guest: ConsoleGuest = 'running'

  constructor(request: ConsoleRequest, display: Display) {
    this.#display = display
    this.#console = new ConsoleConnection(browserLinks, request, {
      insists: true,
      sleep,
      monotonicMs: () => performance.now(),
    })
  }

  /** Shows the console to its end; may be called again after it. */
  async show(): Promise<void> {
    this.#status({ kind: 'connecting' })
    try {
      for await (const event of this.#console.events()) await this.#take(event)
    } catch (error) {
      this.#status(statusOfRefusal(error))
    }
  }

  /**
   * Sends input, also while output is drawn: it may be the Ctrl+C that ends it. Without a session input is dropped, and
   * the status shows that. Input without room is dropped too: a guest that asks its terminal without end, and takes no
   * answer, would fill the page.
   */
  type(bytes: Uint8Array): void {
    if (this.#isAttached && this.#console.hasRoom) void this.#console.write(bytes)
  }

  resize(window: WindowSize): void {
    this.#console.resize(window)
  }

  async #take(event: ConsoleEvent): Promise<void> {
    switch (event.kind) {
      case 'attached':
        this.#display.begin(event.place, event.again)
        this.#guest = event.guest
        if (event.place?.over !== true) this.#attached()
        break
      case 'guest':
        this.#guest = event.state
        this.#attached()
        break
      case 'output':
        this.#display.output(event.bytes)
        if (this.#display.waiting > limits.consolePageBehindBytesMax) await this.#catchUp()
        break
      case 'waiting':
        this.#status({ kind: 'waiting' })
        break
      case 'lost':
        this.#status(statusOfLoss(event.because))
        break
      case 'away':
        // A page that was too slow connects again when it has time.
        await this.#display.drawn()
        break
      case 'closed':
        this.#status(statusOfClose(event.close))
        break
      case 'error':
        // This is a bug of the page, which its developer should see.
        reportError(new Error(event.detail))
        break
      // Any answer proves that the daemon lives.
      case 'position':
        break
      default:
        event satisfies never
    }
  }

  /** Takes no more output until what was taken is drawn: the memory of the page would fill. */
  async #catchUp(): Promise<void> {
    this.#status({ kind: 'behind' })
    await this.#display.drawn()
    this.#attached()
  }

  #attached(): void {
    this.#status({ kind: 'attached', guest: this.#guest })
  }

  #status(status: Status): void {
    this.#isAttached = takesInput(status)
    this.#display.status(status)
  }
}

/** Parses the address of the page: `/ui/console/{id}?mode=ssh&user=…`. A serial console waits for its VM's starts. */
export function requestOf({ pathname, search }: Pick<URL, 'pathname' | 'search'>): ConsoleRequest {
  const vm = decodeURIComponent(pathname.split('/').at(-1) ?? '')
  const query = new URLSearchParams(search)
  if (query.get('mode') !== 'ssh') return { vm, mode: 'tty', follow: true }
  const given = (name: string): string | undefined =>
    // In a query, the + of a pasted fingerprint is read as a blank.
    query.get(name)?.replaceAll(' ', '+') || undefined
  return { vm, mode: 'ssh', user: given('user'), acceptHostKey: given('accept_host_key') }
}
