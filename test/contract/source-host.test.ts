import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { HttpSourceHosts } from '../../src/host/source/http-source-hosts.ts'
import { ok } from '../../src/lib/result.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { manifest, startCoordinationHost } from '../daemon/support/coordination-host.ts'
import { FakeSourceHosts } from '../fakes/fake-source-hosts.ts'
import { ANYWHERE } from '../fakes/outbound.ts'
import { noDepartures, sourceHostContract } from './source-host.contract.ts'
import type { ArrivalId } from '../../src/core/migration/departure.ts'
import type { NodeName } from '../../src/core/migration/offer.ts'
import type { LineMoment } from '../fakes/fake-source-hosts.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

const ORIGIN = 'https://10.0.0.1:9001'

sourceHostContract('fake source host', async (_, departures) => {
  const hosts = new FakeSourceHosts()
  hosts.node = 'host-2' as NodeName
  hosts.peers.set(ORIGIN, () => departures)
  return hosts.at(ORIGIN)
})

let pki: Pki
before(async () => {
  pki = await makePki()
})

sourceHostContract('HTTP source host', async (t, departures) => {
  const { port } = await startCoordinationHost(t, pki, departures)
  const directory = mkdtempSync(join(tmpdir(), 'node-'))
  const files = {
    caFile: join(directory, 'ca.crt'),
    certificateFile: join(directory, 'node.crt'),
    keyFile: join(directory, 'node.key'),
  }
  const { certificate, key } = await pki.issue({ commonName: 'host-2', usages: ['server', 'client'] })
  writeFileSync(files.caFile, pki.authority.certificate)
  writeFileSync(files.certificateFile, certificate)
  writeFileSync(files.keyFile, key)
  const hosts = new HttpSourceHosts({ files, policy: { ...ANYWHERE, allowedNetworks: ['127.0.0.0/8'] } })
  t.after(() => {
    hosts.close()
    rmSync(directory, { recursive: true })
  })
  return hosts.at(`https://127.0.0.1:${port}`)
})

test('the line to a fake source is cut in the moment that a test chooses', async () => {
  const never = new AbortController().signal
  const departures = noDepartures()
  let releases = 0
  departures.release = async () => {
    releases += 1
    return ok({ stage: 'released' })
  }
  const hosts = new FakeSourceHosts()
  hosts.peers.set(ORIGIN, () => departures)
  const move = { migrationId: manifest.migrationId, arrival: 'a' as ArrivalId }
  const release = () => hosts.at(ORIGIN).release(move, 1, never)
  const isCut = (error: unknown): boolean => error instanceof HostFault && error.code === 'source_unreachable'
  const moments: LineMoment[] = []
  hosts.cuts = (moment) => moments.push(moment) > 0 && moment.when === 'before'
  await assert.rejects(release(), isCut)
  assert.equal(releases, 0)
  hosts.cuts = ({ when }) => when === 'after'
  await assert.rejects(release(), isCut)
  assert.equal(releases, 1)
  hosts.cuts = () => false
  hosts.isCut = true
  await assert.rejects(release(), isCut)
  hosts.isCut = false
  assert.ok((await release()).ok)
  assert.deepEqual(moments, [{ request: 'release', when: 'before' }])
  await assert.rejects(hosts.at('https://10.0.0.9:9001').release(move, 1, never), isCut)
})
