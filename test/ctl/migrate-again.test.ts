import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { TwoHosts, WEB } from './support/two-hosts.ts'

test('a VM moves to a host, back, and to that host again, each time by another migration', async (t) => {
  const there = await TwoHosts.start(t, await makePki())
  const ids = new Set<string>()
  for (const hosts of [there, there.back(), there, there.back()]) {
    const { result } = await hosts.begin()
    ids.add(hosts.departure.id)
    await hosts.arrive()
    await hosts.removed(hosts.source)
    const { status, err } = await result
    assert.equal(status, 0, err)
    assert.equal(hosts.source.host.store.vms.get(WEB), undefined)
  }
  assert.equal(ids.size, 4)
})
