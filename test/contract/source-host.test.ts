import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before } from 'node:test'
import { HttpSourceHosts } from '../../src/host/source/http-source-hosts.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { startCoordinationHost } from '../daemon/support/coordination-host.ts'
import { FakeSourceHosts } from '../fakes/fake-source-hosts.ts'
import { ANYWHERE } from '../fakes/outbound.ts'
import { sourceHostContract } from './source-host.contract.ts'
import type { CertificatePair } from '../../src/daemon/setup/certificates.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
/** The certificates of the nodes in the tests. */
const pairs = new Map<string, CertificatePair>()
before(async () => {
  pki = await makePki()
  for (const commonName of ['node-2', 'node-3'])
    pairs.set(commonName, await pki.issue({ commonName, usages: ['client'] }))
})

const ORIGIN = 'https://192.0.2.1:9001'

sourceHostContract('the fake source', async (_t, source) => {
  let isUp = true
  return {
    as: (node) => {
      const hosts = new FakeSourceHosts()
      hosts.node = node
      hosts.peers.set(ORIGIN, () => (isUp ? source : undefined))
      return hosts.at(ORIGIN)
    },
    stop: async () => void (isUp = false),
  }
})

sourceHostContract('a source over TLS', async (t, source) => {
  const host = await startCoordinationHost(t, pki, source)
  return {
    as: (node) => {
      const directory = mkdtempSync(join(tmpdir(), 'node-'))
      const { certificate = '', key = '' } = pairs.get(node) ?? {}
      const texts = { caFile: pki.authority.certificate, certificateFile: certificate, keyFile: key }
      const fileOf = (name: keyof typeof texts): string => {
        writeFileSync(join(directory, name), texts[name])
        return join(directory, name)
      }
      const files = {
        caFile: fileOf('caFile'),
        certificateFile: fileOf('certificateFile'),
        keyFile: fileOf('keyFile'),
      }
      const hosts = new HttpSourceHosts({ files, policy: { ...ANYWHERE, allowedNetworks: ['127.0.0.0/8'] } })
      t.after(() => {
        hosts.close()
        rmSync(directory, { recursive: true })
      })
      return hosts.at(`https://127.0.0.1:${host.port}`)
    },
    stop: () => host.close(0),
  }
})
