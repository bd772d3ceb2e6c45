/** Random work on one VM over the API: the same for the same seed, and of a round that ends as it began. */
import { ControllerClient } from '../lab/controller-client.ts'
import { controllerIdentity } from '../lab/inside/controller.ts'
import { pick, randomFrom } from '../test/sim/random.ts'
import { CHANGES } from './soak-changes.ts'
import { READS } from './soak-reads.ts'
import type { SoakVm } from './soak-vm.ts'

const ACTS_A_ROUND = 6
const BOUND_MS = 120_000

type Act = readonly [name: string, run: (vm: SoakVm) => Promise<unknown>]

/** Names of all acts. */
export const ACTS: readonly string[] = [...Object.keys(CHANGES), ...Object.keys(READS)]

export type SoakTerms = {
  readonly id: string
  readonly ipv4: string
  /** Its create request. */
  readonly request: object
  readonly seed: number
}

/** Plays the controller of one VM. */
export class SoakPlayer {
  readonly #client = new ControllerClient('localhost', controllerIdentity)
  readonly #vm: SoakVm
  /** Reads and changes have the same chance, however many there are of each. */
  readonly #kinds: [readonly Act[], readonly Act[]] = [Object.entries(CHANGES), Object.entries(READS)]
  readonly #acted = new Map<string, number>()

  constructor({ id, ipv4, request, seed }: SoakTerms) {
    this.#vm = { id, ipv4, request, client: this.#client, random: randomFrom(seed) }
  }

  /** Returns how often each act was played. */
  get acted(): ReadonlyMap<string, number> {
    return this.#acted
  }

  /** Makes the VM as each round leaves it. */
  async begin(): Promise<void> {
    const { id, request } = this.#vm
    await this.#client.mutate('PUT', `/v1/vms/${id}`, request)
    await this.#client.settled(id, 'running', BOUND_MS)
    this.#client.close()
  }

  /** Plays a few random acts, and then puts the VM back. Rejects with the name of the act that failed. */
  async playRound(): Promise<void> {
    for (let act = 0; act < ACTS_A_ROUND; act += 1) await this.#play()
    await this.#putBack()
    this.#client.close()
  }

  async #play(): Promise<void> {
    const { random, id } = this.#vm
    const kind = pick(random, this.#kinds)
    const [name, run] = kind[Math.floor(random() * kind.length)] as Act
    try {
      await run(this.#vm)
    } catch (cause) {
      throw new Error(`soak: "${name}" of ${id} failed`, { cause })
    }
    this.#acted.set(name, (this.#acted.get(name) ?? 0) + 1)
  }

  async #putBack(): Promise<void> {
    const { id, request } = this.#vm
    const { compute } = request as { readonly compute: object }
    await this.#client.mutate('PUT', `/v1/vms/${id}/metadata`, { labels: {} })
    await this.#client.mutate('PUT', `/v1/vms/${id}/compute`, compute)
    await this.#client.mutate('PUT', `/v1/vms/${id}/network`, { bandwidth: null })
    await this.#client.setPower(id, 'running')
    await this.#client.settled(id, 'running', BOUND_MS)
  }
}
