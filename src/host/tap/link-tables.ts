import { limits } from '../../config/limits.ts'
import type { Neighbour, TapFacts } from '../../core/world/network-state.ts'
import type { Rtnetlink } from '../netlink/rtnetlink.ts'

/** The routes of the main table that leave by a link, and its permanent neighbours. */
type OnLink = Pick<TapFacts, 'routes' | 'neighbours'>

type OnAllLinks = {
  readonly routes: ReadonlyMap<number, readonly string[]>
  readonly neighbours: ReadonlyMap<number, readonly Neighbour[]>
}

const NOTHING: readonly never[] = []

/**
 * Reads the routes and the permanent neighbours of links. The kernel goes through those of all links for a question
 * about one, so questions about all would take a time that grows with the square of their number. After some questions
 * without a change in between, all are read at once, and kept until something changes.
 */
export class LinkTables {
  readonly #links: Rtnetlink
  #looks = 0
  #all: OnAllLinks | undefined

  constructor(links: Rtnetlink) {
    this.#links = links
  }

  /** Returns what is on a link. Throws ErrnoError; ENODEV if the link is gone. */
  of(index: number): OnLink {
    this.#looks += 1
    if (this.#looks > limits.linkLooksUnchanged) this.#all ??= this.#readAll()
    if (this.#all === undefined)
      return { routes: this.#links.routes(index), neighbours: this.#links.permanentNeighbours(index) }
    const { routes, neighbours } = this.#all
    return { routes: routes.get(index) ?? NOTHING, neighbours: neighbours.get(index) ?? NOTHING }
  }

  /** Forgets what was kept. Must be called after each change of links, routes and neighbours by any program. */
  forget(): void {
    this.#looks = 0
    this.#all = undefined
  }

  #readAll(): OnAllLinks {
    return { routes: this.#links.routesByLink(), neighbours: this.#links.permanentNeighboursByLink() }
  }
}
