import { limits } from '../../config/limits.ts'
import { printable } from '../../lib/text.ts'
import { paintFor } from '../text.ts'
import { exitStatus } from '../exit-status.ts'
import { endingOf } from './ending.ts'
import { Escapes } from './escapes.ts'
import { withoutQuestions } from './terminal-answer.ts'
import type { Attachment, ConsoleGuest } from '../../core/console/console-viewer.ts'
import type {
  ConsoleConnection,
  ConsoleEvent,
  ConsoleRequest,
} from '../../client/console/console-connection.ts'
import type { Context } from '../command.ts'
import type { ExitStatus } from '../exit-status.ts'
import type { Ending } from './ending.ts'
import type { Terminal } from '../shell.ts'

const ESCAPES_HELP = [
  'Escapes, at the start of a line:',
  '  ~.  leave; the VM keeps running',
  '  ~?  this text',
  '  ~~  one ~ for the guest',
]

/** Shows a console on this terminal until it ends or its user leaves it. */
export async function attach(context: Context, request: ConsoleRequest): Promise<ExitStatus> {
  const terminal = context.shell.openTerminal()
  const connection = context.openConsole({ ...request, window: terminal.window() })
  return await new Attached(context, request, { terminal, connection }).run()
}

/** Says what the guest does, in a terminal that shows nothing else while it rests. */
function guestWords(state: ConsoleGuest, vm: string): string {
  if (state === 'running') return `${vm} runs again`
  const [is, verb] = state === 'sleeping' ? ['sleeps', 'start'] : ['is paused', 'resume']
  return `${vm} ${is}, and what you type waits; to continue: vmhostctl vm ${verb} ${vm}`
}

class Attached {
  readonly #context: Context
  readonly #request: ConsoleRequest
  readonly #terminal: Terminal
  readonly #connection: ConsoleConnection
  readonly #escapes = new Escapes()
  readonly #stops: (() => void)[] = []
  /** History that has come so far; `#historyLeft` counts the bytes of it that are still to come. */
  #history: Uint8Array[] = []
  #historyLeft = 0
  /** Whether the guest writes to this terminal and may have left the cursor anywhere. */
  #isShared = false
  #wasAttached = false
  #isAway = false
  #hasLeft = false
  /** Whether typed input has waited too long for room. */
  #isStuck = false
  /** Raised when the console has ended. */
  readonly #over = new AbortController()
  /** Ends the wait for a terminal that takes no output. */
  #stopWriting: () => void = () => {}

  constructor(
    context: Context,
    request: ConsoleRequest,
    { terminal, connection }: { readonly terminal: Terminal; readonly connection: ConsoleConnection },
  ) {
    this.#context = context
    this.#request = request
    this.#terminal = terminal
    this.#connection = connection
  }

  async run(): Promise<ExitStatus> {
    const { status, words } = await this.#follow()
    if (words !== '') this.#note(words)
    return status
  }

  /** Follows the console to its end; then the terminal is as it was before. */
  async #follow(): Promise<Ending> {
    const { vm } = this.#request
    // The window may change before anything is shown in it.
    this.#stops.push(this.#terminal.onResize(() => this.#sendWindow()))
    try {
      let isFirst = true
      for await (const event of this.#connection.events()) {
        // Leave the terminal as it was until the daemon has accepted.
        if (isFirst) await this.#begin()
        isFirst = false
        if (event.kind === 'output') {
          await this.#show(event.bytes)
          continue
        }
        await this.#showHistory()
        if (event.kind === 'closed') return endingOf(event.close, vm)
        this.#announce(event)
      }
      return { status: exitStatus.done, words: this.#hasLeft ? `left the console of ${vm}` : '' }
    } finally {
      this.#over.abort()
      for (const stop of this.#stops.splice(0).toReversed()) stop()
    }
  }

  async #begin(): Promise<void> {
    const { vm, mode } = this.#request
    if (this.#terminal.isTyped) {
      const what = mode === 'ssh' ? 'a shell in' : 'the console of'
      this.#note(`${what} ${vm}; ~. at the start of a line leaves, ~? shows all escapes`)
    }
    this.#stops.push(await this.#terminal.lend())
    this.#isShared = this.#terminal.isTyped
    this.#stops.push(
      () => this.#terminal.softReset(),
      this.#terminal.listen({
        onInput: (bytes) => this.#input(bytes),
        // Input from a file or pipe ends, and the output goes on. Input from a terminal ends because it was hung up.
        onEnd: () => this.#terminal.isTyped && this.#leave(),
      }),
    )
  }

  #sendWindow(): void {
    const window = this.#terminal.window()
    if (window !== undefined) this.#connection.resize(window)
  }

  async #show(bytes: Uint8Array): Promise<void> {
    const old = bytes.subarray(0, this.#historyLeft)
    this.#history.push(old)
    this.#historyLeft -= old.length
    if (this.#historyLeft > 0) return
    await this.#showHistory()
    await this.#write(bytes.subarray(old.length))
  }

  /** Shows all history that came, even if the connection broke before the rest. */
  async #showHistory(): Promise<void> {
    const history = Buffer.concat(this.#history)
    this.#history = []
    this.#historyLeft = 0
    await this.#write(withoutQuestions(history))
  }

  async #write(bytes: Uint8Array): Promise<void> {
    if (bytes.length === 0 || this.#hasLeft) return
    await new Promise<void>((resolve, reject) => {
      this.#stopWriting = resolve
      this.#terminal.write(bytes).then(resolve, reject)
    })
  }

  #input(bytes: Uint8Array): void {
    // Escapes are only for a typing user; a file may have any bytes.
    const typed = this.#terminal.isTyped ? this.#escapes.read(bytes) : [{ kind: 'bytes', bytes } as const]
    for (const piece of typed) {
      if (piece.kind === 'leave') this.#leave()
      else if (piece.kind === 'help') this.#line(ESCAPES_HELP.join('\r\n'))
      else void this.#send(piece.bytes)
    }
  }

  async #send(bytes: Uint8Array): Promise<void> {
    if (this.#isStuck && !this.#connection.hasRoom) return
    this.#isStuck = false
    const room = this.#connection.write(bytes)
    if (this.#connection.hasRoom) return
    this.#terminal.pause()
    await this.#untilRoom(room)
    if (!this.#over.signal.aborted) this.#terminal.resume()
  }

  /** Waits as long as it takes for a pipe. Typed input must be read soon, because only it can leave. */
  async #untilRoom(room: Promise<void>): Promise<void> {
    if (!this.#terminal.isTyped) return await room
    const found = new AbortController()
    const signal = AbortSignal.any([found.signal, this.#over.signal])
    const late = this.#context.shell.sleep(limits.ctlInputStuckMs, signal).catch(() => {})
    await Promise.race([room, late])
    found.abort()
    if (this.#isStuck || this.#connection.hasRoom || this.#over.signal.aborted) return
    this.#isStuck = true
    const { vm } = this.#request
    this.#note(`${vm} takes no input, and more is dropped until it does; ~. at the start of a line leaves`)
  }

  #leave(): void {
    this.#hasLeft = true
    this.#stopWriting()
    this.#connection.close()
  }

  #announce(event: Exclude<ConsoleEvent, { readonly kind: 'output' | 'closed' }>): void {
    const { vm } = this.#request
    switch (event.kind) {
      case 'away':
        this.#note('connection lost; waiting for the daemon…')
        this.#isAway = true
        break
      case 'attached':
        this.#noteBack()
        if (!event.again) this.#beginSession(event.place)
        if ((event.place?.lostBytes ?? 0) > 0)
          this.#note(`${event.place?.lostBytes} bytes of output are lost`)
        break
      case 'guest':
        this.#note(guestWords(event.state, vm))
        break
      case 'waiting':
        this.#noteBack()
        this.#note(`${vm} does not run on this host; waiting for its start`)
        break
      case 'error':
        this.#note(`the daemon did not understand this program: ${event.detail} (${event.code})`)
        break
      case 'lost':
      case 'position':
        break
    }
  }

  #beginSession(place: Attachment | undefined): void {
    if (this.#wasAttached) {
      this.#terminal.softReset()
      this.#note('a new session')
    }
    this.#wasAttached = true
    // Questions in the history do no harm in a pipe: nothing there answers them.
    if (this.#terminal.isTyped || this.#terminal.isShown) this.#historyLeft = place?.replayBytes ?? 0
  }

  #noteBack(): void {
    if (this.#isAway) this.#note('connected again')
    this.#isAway = false
  }

  #note(text: string): void {
    const { stderr, environment } = this.#context.shell
    this.#line(paintFor(stderr, environment['NO_COLOR'])(`vmhostctl: ${printable(text)}`, 'yellow'))
  }

  /** Prints the text on lines of its own. */
  #line(text: string): void {
    this.#context.shell.stderr.write(this.#isShared ? `\r\n${text}\r\n` : `${text}\n`)
  }
}
