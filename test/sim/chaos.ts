import { HostFault } from '../../src/core/errors.ts'
import type { FaultCode } from '../../src/core/errors.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { Host } from '../../src/ports/host.ts'

export type Odds = {
  /** Of a fault in place of the call's effect. */
  readonly before: number
  /** Of a fault although the effect took place. */
  readonly after: number
  /** Of the daemon dying at the call, before or after its effect. */
  readonly crash: number
  /** The traffic of guests can't be known, as on a host without BPF; that does not heal. */
  readonly withoutTraffic?: true
  /** The one moment at which it surely dies, counted from 1 over all calls; each call has two. */
  readonly dieAt?: number
}

/**
 * One life of the daemon on a host that misbehaves: port calls fail before or after their effect, and the daemon dies at
 * any of them. From its death on no call returns, so that nothing of that life goes on.
 */
export class Chaos {
  readonly host: Host
  odds: Odds
  dead = false
  #moments = 0
  readonly #random: () => number

  constructor(host: Host, odds: Odds, random: () => number) {
    this.odds = odds
    this.#random = random
    this.host = {
      ...host,
      units: this.#around(host.units, 'systemd_unavailable'),
      consoles: this.#around(host.consoles, 'console_unprotected'),
      monitor: this.#around(host.monitor, 'monitor_refused'),
      storage: this.#around(host.storage, 'storage_failed'),
      taps: this.#around(host.taps, 'network_failed'),
      firewall: this.#around(host.firewall, 'firewall_failed'),
      traffic: this.#around(host.traffic, 'traffic_failed'),
      savedStates: this.#around(host.savedStates, 'storage_failed'),
      clock: this.#mortal(host.clock),
    }
  }

  /** Other odds from now on, and moments counted anew. */
  restart(odds: Odds): void {
    this.odds = odds
    this.#moments = 0
  }

  #around<P extends object>(port: P, code: FaultCode): P {
    return new Proxy(port, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        return (...args: unknown[]): unknown => {
          if (!asynchronous.test(String(name))) return Reflect.apply(member, target, args)
          return this.#call(String(name), code, () => Promise.resolve(Reflect.apply(member, target, args)))
        }
      },
    })
  }

  /** Timers end with the process that set them. */
  #mortal(clock: Clock): Clock {
    return {
      now: () => clock.now(),
      monotonicMs: () => clock.monotonicMs(),
      random: () => clock.random(),
      after: (ms, callback) => clock.after(ms, () => void (this.dead || callback())),
    }
  }

  async #call(name: string, code: FaultCode, effect: () => Promise<unknown>): Promise<unknown> {
    const fault = (when: string) => new HostFault(code, `${name} failed ${when} its effect`)
    await this.#mayDie()
    if (code === 'traffic_failed' && this.odds.withoutTraffic === true) throw fault('before')
    if (this.#random() < this.odds.before) throw fault('before')
    const result = await effect()
    await this.#mayDie()
    if (this.#random() < this.odds.after) throw fault('after')
    return result
  }

  async #mayDie(): Promise<void> {
    this.#moments += 1
    if (this.#random() < this.odds.crash || this.#moments === this.odds.dieAt) this.dead = true
    if (this.dead) await new Promise(() => {})
  }
}

const asynchronous = /^(inspect|ensure|remove|list|restart|installed|save|publish|verify)/
