import { HostFault } from '../../src/core/errors.ts'
import type { MonitorKind } from '../../src/core/monitor/monitor-kind.ts'
import type { FaultCode } from '../../src/core/errors.ts'
import type { Clock } from '../../src/ports/clock.ts'
import type { Host } from '../../src/ports/host.ts'
import type { GuestAgent, Monitor } from '../../src/ports/monitor.ts'
import type { ObjectStore, Unsent } from '../../src/ports/object-store.ts'
import type { Staging } from '../../src/ports/staging.ts'

export type Odds = {
  /** Odds of a fault in place of the call's effect. */
  readonly before: number
  /** Odds of a fault after the effect took place. */
  readonly after: number
  /** Odds of the daemon dying at the call, before or after its effect. */
  readonly crash: number
  /** Odds of an agent in a guest that does nothing it is asked, and of one whose answer is lost. */
  readonly silence?: number
  /** The traffic of guests cannot be known, as on a host without BPF; this stays so. */
  readonly withoutTraffic?: true
  /** Odds that a death affects the whole host, which loses its power. */
  readonly powerLoss?: number
  /** The one moment at which the daemon surely dies, counted from 1 over all calls; each call has two. */
  readonly dieAt?: number
  /** The monitor of all VMs; without it, each second VM has Firecracker. */
  readonly monitor?: MonitorKind
}

/** Nothing fails. */
export const calm: Odds = { before: 0, after: 0, crash: 0 }
export const isCalm = ({ before, after, crash }: Odds): boolean => before + after + crash === 0

/**
 * One life of the daemon on a host that misbehaves: port calls fail before or after their effect, and the daemon dies
 * at any of them. After its death no call returns, so that no code of that life continues.
 */
export class Chaos {
  readonly host: Host
  odds: Odds
  readonly #death = Promise.withResolvers<never>()
  #dead = false
  #moments = 0
  readonly #random: () => number
  readonly #onPowerLoss: () => void

  constructor(host: Host, odds: Odds, random: () => number, onPowerLoss = (): void => {}) {
    this.#onPowerLoss = onPowerLoss
    this.#death.promise.catch(() => {})
    this.odds = odds
    this.#random = random
    this.host = {
      ...host,
      units: this.#around(host.units, 'systemd_unavailable'),
      consoles: this.#around(host.consoles, 'console_unprotected'),
      monitors: {
        qemu: this.#aroundMonitor(host.monitors.qemu),
        firecracker: this.#aroundMonitor(host.monitors.firecracker),
      },
      storage: this.#around(host.storage, 'storage_failed'),
      staging: this.#aroundStaging(host.staging),
      rounds: this.#around(host.rounds, 'storage_failed'),
      incomingDisks: this.#aroundFiles(host.incomingDisks, 'open'),
      sourceHosts: { at: (origin) => this.#around(host.sourceHosts.at(origin), 'source_unreachable') },
      objectStore: this.#aroundStore(host.objectStore),
      taps: this.#around(host.taps, 'network_failed'),
      firewall: this.#around(host.firewall, 'firewall_failed'),
      traffic: this.#around(host.traffic, 'traffic_failed'),
      savedStates: this.#aroundFiles(host.savedStates, 'openIncoming'),
      clock: this.#mortal(host.clock),
    }
  }

  get dead(): boolean {
    return this.#dead
  }

  set dead(dead: boolean) {
    this.#dead = dead
    if (dead) this.#death.reject(new HostFault('source_unreachable', 'the daemon died'))
  }

  /** Returns a part of this life as another host sees it: a call that the life does not finish breaks off. */
  untilDeath<P extends object>(part: P): P {
    return new Proxy(part, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        return (...args: unknown[]): unknown =>
          Promise.race([Promise.resolve(Reflect.apply(member, target, args)), this.#death.promise])
      },
    })
  }

  /** Sets other odds from now on, and restarts the count of moments. */
  restart(odds: Odds): void {
    this.odds = odds
    this.#moments = 0
  }

  /** Whether the daemon dies at this moment, or has died. */
  moment(): boolean {
    this.#moments += 1
    if (this.dead) return true
    const { crash, dieAt, powerLoss = 0 } = this.odds
    this.dead = this.#random() < crash || this.#moments === dieAt
    if (this.dead && powerLoss > 0 && this.#random() < powerLoss) this.#onPowerLoss()
    return this.dead
  }

  /** Number of moments so far. */
  get moments(): number {
    return this.#moments
  }

  /** A file that a dead daemon had open takes nothing more from it. */
  #aroundFiles<P extends object>(port: P, opens: string): P {
    const around = this.#around(port, 'storage_failed')
    return new Proxy(around, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (name !== opens || typeof member !== 'function') return member
        return async (...args: unknown[]): Promise<unknown> =>
          this.#around((await Reflect.apply(member, target, args)) as object, 'storage_failed')
      },
    })
  }

  /** Packing reports nothing to a daemon that died meanwhile. */
  #aroundStaging(staging: Staging): Staging {
    const around = this.#around(staging, 'storage_failed')
    const pack: Staging['pack'] = (job, signal) => {
      const onPart: typeof job.onPart = async (part, next) => {
        await this.#mayDie()
        await job.onPart(part, next)
        await this.#mayDie()
      }
      return around.pack({ ...job, onPart }, signal)
    }
    return new Proxy(around, {
      get: (target, name) => (name === 'pack' ? pack : Reflect.get(target, name)),
    })
  }

  /** An unreachable store counts as busy, and throws nothing. */
  #aroundStore(store: ObjectStore): ObjectStore {
    const ask = async <T>(request: () => Promise<T>): Promise<T | Unsent> => {
      const busy = (when: string): Unsent => ({ kind: 'busy', because: `it broke off ${when} the request` })
      await this.#mayDie()
      if (this.#random() < this.odds.before) return busy('before')
      const answer = await request()
      await this.#mayDie()
      return this.#random() < this.odds.after ? busy('after') : answer
    }
    return {
      putPart: ({ onSent, ...part }, signal) => {
        const onSentAlive = (bytes: number): void => void (this.dead || onSent?.(bytes))
        return ask(() => store.putPart({ ...part, onSent: onSentAlive }, signal))
      },
      complete: (url, parts, signal) => ask(() => store.complete(url, parts, signal)),
      head: (url, signal) => ask(() => store.head(url, signal)),
    }
  }

  /** A silent agent is not a fault: its effect is unknown. */
  #aroundMonitor(monitor: Monitor): Monitor {
    const ask = async <T>(request: () => Promise<T>, unheard: T): Promise<T> => {
      await this.#mayDie()
      const { silence = 0 } = this.odds
      if (this.#random() < silence) return unheard
      const answer = await request()
      await this.#mayDie()
      return this.#random() < silence ? unheard : answer
    }
    const agent: GuestAgent = {
      setGuestTime: (id) => monitor.agent.setGuestTime(id),
      freeze: (id, signal) => ask(() => monitor.agent.freeze(id, signal), 'unknown'),
      thaw: (id, signal) => ask(() => monitor.agent.thaw(id, signal), false),
    }
    return new Proxy(this.#around(monitor, 'monitor_refused'), {
      get: (target, name) => (name === 'agent' ? agent : Reflect.get(target, name)),
    })
  }

  #around<P extends object>(port: P, code: FaultCode): P {
    return new Proxy(port, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        return (...args: unknown[]): unknown => {
          if (!asynchronous.test(String(name)))
            return Reflect.apply(
              member,
              target,
              args.map((arg) => this.#mortalListener(arg)),
            )
          return this.#call(String(name), code, () => Promise.resolve(Reflect.apply(member, target, args)))
        }
      },
    })
  }

  /** Callbacks end with the process too. */
  #mortalListener(argument: unknown): unknown {
    if (typeof argument !== 'function') return argument
    return (...args: unknown[]): unknown => (this.dead ? undefined : Reflect.apply(argument, undefined, args))
  }

  /** Timers end with the process that set them. */
  #mortal(clock: Clock): Clock {
    return {
      now: () => clock.now(),
      monotonicMs: () => clock.monotonicMs(),
      random: () => clock.random(),
      after: (ms, callback) => clock.after(ms, () => this.#whileAlive(callback)),
    }
  }

  /** Calls back, unless the process is dead. It may die in the midst of its own code, which then ends. */
  #whileAlive(callback: () => void): void {
    if (this.dead) return
    try {
      callback()
    } catch (death) {
      if (!this.dead) throw death
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
    if (this.moment()) await new Promise(() => {})
  }
}

const asynchronous =
  /^(inspect|ensure|rebuild|remove|list|restart|installed|save|publish|verify|flushDisk|clone|keep|pack|discard|held|inject|describe|open|manifest|roundFrames|memoryFrames|handOver|image$|console$|release|abort|write$|flush$|close$)/
