/**
 * A client of a guest's counter: its connection stays open while the guest moves, and no line may be lost or repeated.
 */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { until } from '../../lab/inside/until.ts'
import { CLIENT } from './roads.ts'
import type { Socket } from 'node:net'

const PORT = 7
const CONNECT_BOUND_MS = 2000

export class CountingClient {
  readonly #socket: Socket
  readonly #sent: string[] = []
  readonly #lines = createHash('sha256')
  #answered = 0
  #failure: Error | undefined
  #lastAt = performance.now()
  #longestPauseMs = 0
  #digest = ''
  #timer: NodeJS.Timeout | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('error', (error) => this.#fail(error))
    socket.on('close', () => this.#fail(new Error('the connection ended')))
    createInterface(socket).on('line', (line) => this.#take(line))
  }

  /** Waits until the guest accepts a connection. */
  static open(address: string): Promise<CountingClient> {
    return until(`${address} counts`, async () => {
      const socket = connect({ host: address, port: PORT, localAddress: CLIENT, noDelay: true })
      socket.setTimeout(CONNECT_BOUND_MS, () => socket.destroy(new Error(`${address} does not answer`)))
      await once(socket, 'connect')
      socket.setTimeout(0)
      return new CountingClient(socket)
    })
  }

  /** Lines that the guest has answered. */
  get answered(): number {
    return this.#answered
  }

  /** Returns the longest time without an answer while lines were sent, and begins to look for the next one. */
  takeLongestPauseMs(): number {
    const longest = this.#longestPauseMs
    this.#longestPauseMs = 0
    return longest
  }

  /** Sends a line every so many milliseconds, until `rest`. */
  talk(everyMs: number): void {
    this.#lastAt = performance.now()
    this.#timer = setInterval(() => this.#say(`line ${this.#sent.length + 1}`), everyMs)
  }

  /**
   * Stops talking, and waits for all answers. Throws if one was lost, repeated or changed, or if the connection ended.
   */
  async rest(): Promise<void> {
    clearInterval(this.#timer)
    await until('all lines are answered', async () => this.#isDone(this.#sent.length))
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Waits for `count` further answers. */
  async hears(count: number): Promise<void> {
    const wanted = this.#answered + count
    await until(`${count} further answers`, async () => this.#isDone(wanted))
    if (this.#failure !== undefined) throw this.#failure
  }

  /** Throws if the lines on the guest's disk are not those that were sent. */
  async checkDisk(): Promise<void> {
    await this.rest()
    const expected = this.#lines.copy().digest('hex')
    this.#sent.push('digest')
    this.#socket.write('digest\n')
    await this.rest()
    if (this.#digest !== expected)
      throw new Error(`the guest's disk has other lines: ${this.#digest} and not ${expected}`)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#socket.removeAllListeners('close')
    this.#socket.destroy()
  }

  #isDone(count: number): true | undefined {
    return this.#failure !== undefined || this.#answered >= count ? true : undefined
  }

  #say(line: string): void {
    this.#sent.push(line)
    this.#lines.update(`${line}\n`)
    this.#socket.write(`${line}\n`)
  }

  #take(line: string): void {
    const now = performance.now()
    this.#longestPauseMs = Math.max(this.#longestPauseMs, now - this.#lastAt)
    this.#lastAt = now
    const said = this.#sent[this.#answered] ?? ''
    this.#answered += 1
    const expected = `${this.#answered} ${said}`
    if (said === 'digest' && line.startsWith(`${expected} `)) this.#digest = line.slice(expected.length + 1)
    else if (line !== expected) this.#fail(new Error(`the guest answered ${line} and not ${expected}`))
  }

  #fail(error: Error): void {
    this.#failure ??= error
  }
}
