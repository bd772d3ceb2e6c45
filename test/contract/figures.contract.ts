import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { canonicalAddress } from '../../src/core/network/address.ts'
import { HostFault } from '../../src/core/errors.ts'
import type { HostFigures } from '../../src/ports/host-figures.ts'

/** Figures under test, and the actions of the test on their host. */
export type FiguresStage = {
  readonly figures: HostFigures
  readonly poolId: string
  /** Hides the pool, as an unmount does, or brings it back. */
  setInSight(inSight: boolean): Promise<void> | void
  /** Gives the host an address, or takes it away. */
  addAddress(address: string): Promise<void> | void
  removeAddress(address: string): Promise<void> | void
}

const isStorageFault = (error: unknown): boolean =>
  error instanceof HostFault && error.code === 'storage_inspection_failed'

/** Promises of all figures of a host; `set` makes a stage and registers its own clean-up. */
export function figuresContract(
  name: string,
  set: (t: TestContext) => Promise<FiguresStage> | FiguresStage,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: FiguresStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async (t) => body(await set(t)))
  }

  promise(
    'memory and CPUs are whole numbers above zero, and available memory does not exceed the total',
    async (stage) => {
      const memory = await stage.figures.memory()
      assert.ok(Number.isInteger(memory.totalMib) && memory.totalMib > 0)
      assert.ok(Number.isInteger(memory.availableMib) && memory.availableMib > 0)
      assert.ok(memory.availableMib <= memory.totalMib)
      const cpus = await stage.figures.cpus()
      assert.ok(Number.isInteger(cpus) && cpus > 0)
    },
  )

  promise('the pool has its id and its sizes', async ({ figures, poolId }) => {
    const pool = await figures.pool()
    assert.equal(pool.poolId, poolId)
    assert.ok(Number.isInteger(pool.totalMib) && pool.totalMib > 0)
    assert.ok(Number.isInteger(pool.availableMib) && pool.availableMib > 0)
    assert.ok(pool.availableMib <= pool.totalMib)
  })

  promise('a hidden pool has no figures, and has them again when it is back', async (stage) => {
    const before = await stage.figures.pool()
    await stage.setInSight(false)
    await assert.rejects(stage.figures.pool(), isStorageFault)
    assert.ok((await stage.figures.memory()).totalMib > 0)
    await stage.setInSight(true)
    const after = await stage.figures.pool()
    assert.deepEqual({ ...after, availableMib: 0 }, { ...before, availableMib: 0 })
  })

  promise('addresses are in canonical text, and are those of this moment', async (stage) => {
    for (const address of await stage.figures.addresses()) assert.equal(canonicalAddress(address), address)
    for (const address of ['198.51.100.7', '2001:db8::7']) {
      assert.ok(!(await stage.figures.addresses()).has(address))
      await stage.addAddress(address)
      assert.ok((await stage.figures.addresses()).has(address))
      await stage.removeAddress(address)
      assert.ok(!(await stage.figures.addresses()).has(address))
    }
  })

  promise('the figures of the machine contain no path', async ({ figures }) => {
    const { kernel, architecture, monitors } = await figures.machine()
    const words = monitors.flatMap(({ kind, program, accelerator }) => [kind, program, accelerator])
    for (const word of [kernel, architecture, ...words]) assert.match(word, /^[^/]+$/)
  })
}
