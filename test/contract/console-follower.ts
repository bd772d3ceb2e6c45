import type { VmId } from '../../src/core/ids.ts'
import type { ConsoleSession, Consoles, MovedConsole, SessionOutput } from '../../src/ports/consoles.ts'
import type { Heard, SessionView } from './consoles-stage.ts'

/** State of a session, with its output from `since` on. */
export function viewSession(session: ConsoleSession | undefined, since: number): SessionView | undefined {
  if (session === undefined) return undefined
  const { start, bytes } = session.output.since(since)
  const text = Buffer.from(bytes).toString('latin1')
  return { session: session.id, start, end: session.output.end, text, inputWaiting: session.inputWaiting }
}

/** All output that is kept of a session. */
export const textOf = (session: SessionOutput | undefined): string | undefined =>
  session && Buffer.from(session.output.since(0).bytes).toString('latin1')

/** A session that moves, as JSON carries it between two processes. */
export type MovedText = Omit<MovedConsole, 'output'> & { readonly output: string }

export const movedText = (moved: MovedConsole | undefined): MovedText | undefined =>
  moved && { ...moved, output: Buffer.from(moved.output).toString('base64') }

export const movedOf = (text: MovedText): MovedConsole => ({
  ...text,
  output: Buffer.from(text.output, 'base64'),
})

/** Follows every session of some consoles from its oldest byte on, as a viewer does. */
export class ConsoleFollower {
  readonly #heard = new Map<VmId, Heard[]>()
  /** VMs that were offered a place, in order. */
  readonly offered: VmId[] = []

  constructor(consoles: Pick<Consoles, 'onSession' | 'onPlace'>) {
    consoles.onSession((id, session) => this.#follow(id, session))
    consoles.onPlace((id) => this.offered.push(id))
  }

  /** Returns what the sessions of a VM said since this life of the daemon began, in order. */
  of(id: VmId): readonly Heard[] {
    return this.#heard.get(id) ?? []
  }

  /** Forgets everything that it heard. */
  forget(): void {
    this.#heard.clear()
    this.offered.length = 0
  }

  #follow(id: VmId, session: ConsoleSession): void {
    const { output } = session
    let cursor = output.start
    const heard: Heard = { session: session.id, from: cursor, text: '', rooms: 0 }
    this.#heard.set(id, [...this.of(id), heard])
    const read = (): number => {
      const { start, bytes } = output.since(cursor)
      heard.text += start === cursor ? '' : `<${start - cursor} bytes are gone>`
      heard.text += Buffer.from(bytes).toString('latin1')
      cursor = start + bytes.length
      return bytes.length
    }
    read()
    session.onOutput(read)
    session.onInputRoom(() => {
      heard.rooms += 1
    })
    session.onEnd(() => {
      heard.unreadAtEnd = read()
    })
  }
}
