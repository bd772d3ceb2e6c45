import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GuestProbes } from '../../src/ports/guest-probes.ts'

export type ProbesStage = {
  readonly probes: GuestProbes
  /** Serves these paths with these statuses, and returns the address and port. */
  readonly serve: (paths: Readonly<Record<string, number>>) => Promise<{ address: string; port: number }>
  /** Returns an address and port that take no connection. */
  readonly closed: () => Promise<{ address: string; port: number }>
  readonly end: () => void | Promise<void>
}

/** Checks what every driver of guest probes, and its fake, must do. */
export function guestProbesContract(
  name: string,
  makeStage: () => Promise<ProbesStage>,
  options: { readonly skip?: boolean | string } = {},
): void {
  const promise = (what: string, body: (stage: ProbesStage) => Promise<void>): void => {
    test(`${name}: ${what}`, { skip: options.skip ?? false }, async () => {
      const stage = await makeStage()
      try {
        await body(stage)
      } finally {
        await stage.end()
      }
    })
  }

  promise('a port that takes connections is ready for tcp, whatever it serves', async ({ probes, serve }) => {
    const { address, port } = await serve({ '/': 500 })
    assert.equal(await probes.probe({ address, check: { protocol: 'tcp', port } }), undefined)
  })

  promise('a status from 200 to 399 is ready for http, and others are not', async ({ probes, serve }) => {
    const { address, port } = await serve({ '/': 200, '/moved': 302, '/broken': 503 })
    const ask = (path?: string) =>
      probes.probe({ address, check: { protocol: 'http', port, ...(path === undefined ? {} : { path }) } })
    assert.deepEqual([await ask(), await ask('/moved')], [undefined, undefined])
    assert.equal(await ask('/broken'), `GET /broken on port ${port}: status 503`)
    assert.equal(await ask('/other'), `GET /other on port ${port}: status 404`)
  })

  promise('a closed port is ready for neither, and the reason names the port', async ({ probes, closed }) => {
    const { address, port } = await closed()
    for (const protocol of ['tcp', 'http'] as const)
      assert.match(
        (await probes.probe({ address, check: { protocol, port } })) ?? '',
        /port \d+: ECONNREFUSED$/,
      )
  })
}
