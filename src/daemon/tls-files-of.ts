import { given } from '../lib/given.ts'
import type { TlsFiles } from '../api/listener/tls-files.ts'
import type { Config } from '../config/config.ts'

type Files = Pick<Config['coordination'], 'caFile' | 'certificateFile' | 'keyFile' | 'revocationFile'>

/** Returns the files of a listener, as its table of the configuration names them. */
export const tlsFilesOf = ({ caFile, certificateFile, keyFile, revocationFile }: Files): TlsFiles => ({
  ca: caFile,
  certificate: certificateFile,
  key: keyFile,
  ...given({ revocations: revocationFile }),
})
