import type { GuestProbes, ProbeTarget } from '../../src/ports/guest-probes.ts'

/** Guests in memory that take connections on some ports. */
export class FakeGuestProbes implements GuestProbes {
  /** The status of each path that is served, by `address port`; no entry: the port is closed. */
  readonly serving = new Map<string, Readonly<Record<string, number>>>()
  /** Each question, in order, as `address port`. */
  readonly asked: string[] = []

  async probe({ address, check: { protocol, port, path = '/' } }: ProbeTarget): Promise<string | undefined> {
    const key = `${address} ${port}`
    this.asked.push(key)
    const paths = this.serving.get(key)
    if (paths === undefined) return `connect to port ${port}: ECONNREFUSED`
    const status = paths[path] ?? 404
    return protocol === 'tcp' || status < 400 ? undefined : `GET ${path} on port ${port}: status ${status}`
  }
}
