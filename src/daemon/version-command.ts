import { descriptorStoreSupport } from '../host/systemd/descriptor-store.ts'
import { build } from './build.ts'

/** Returns exit status 1 if this build cannot keep consoles in the descriptor store. */
export async function versionCommand(): Promise<number> {
  const support = descriptorStoreSupport()
  console.log(`vmhostd ${build.version}`)
  console.log(`commit ${build.commit}`)
  console.log(`node ${process.version}`)
  console.log(`descriptor_store=${support.supported ? 'supported' : `unsupported: ${support.because}`}`)
  return support.supported ? 0 : 1
}
