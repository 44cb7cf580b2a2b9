/**
 * Made by `npm run build:runtime`: which objects of the guest runtime lie in the folder objects, by
 * target and entry flavour, and the tools that made them.
 */

/**
 * One object: its file in the folder objects is its key with the ending `.o`; SHA-256 of its bytes
 * in hexadecimal.
 */
export interface PrebuiltObject {
  readonly sha256: string;
}

/** First line of `--version` by tool. */
export const VERSIONS: Readonly<Record<string, string>> = {
  'aarch64-linux-gnu-as': 'GNU assembler (GNU Binutils for Debian) 2.40',
  'aarch64-linux-gnu-gcc': 'aarch64-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0',
  'aarch64-linux-gnu-ld': 'GNU ld (GNU Binutils for Debian) 2.40',
  'powerpc-linux-gnu-as': 'GNU assembler (GNU Binutils for Debian) 2.40',
  'powerpc-linux-gnu-gcc': 'powerpc-linux-gnu-gcc (Debian 12.2.0-13) 12.2.0',
  'powerpc-linux-gnu-ld': 'GNU ld (GNU Binutils for Debian) 2.40',
  'powerpc64-linux-gnu-as': 'GNU assembler (GNU Binutils for Debian) 2.40',
  'powerpc64-linux-gnu-gcc': 'powerpc64-linux-gnu-gcc (Debian 12.2.0-13) 12.2.0',
  'powerpc64-linux-gnu-ld': 'GNU ld (GNU Binutils for Debian) 2.40',
  'powerpc64le-linux-gnu-as': 'GNU assembler (GNU Binutils for Debian) 2.40',
  'powerpc64le-linux-gnu-gcc': 'powerpc64le-linux-gnu-gcc (Debian 12.2.0-14) 12.2.0',
  'powerpc64le-linux-gnu-ld': 'GNU ld (GNU Binutils for Debian) 2.40',
  'riscv64-linux-gnu-as': 'GNU assembler (GNU Binutils for Debian) 2.40',
  'riscv64-linux-gnu-gcc': 'riscv64-linux-gnu-gcc (Debian 12.2.0-13) 12.2.0',
  'riscv64-linux-gnu-ld': 'GNU ld (GNU Binutils for Debian) 2.40',
  'x86_64-linux-gnu-as': 'GNU assembler (GNU Binutils for Debian) 2.40',
  'x86_64-linux-gnu-gcc': 'x86_64-linux-gnu-gcc (Debian 12.2.0-14+deb12u1) 12.2.0',
  'x86_64-linux-gnu-ld': 'GNU ld (GNU Binutils for Debian) 2.40',
};

/** By `TARGET/FLAVOUR`. */
export const OBJECTS: Readonly<Record<string, PrebuiltObject>> = {
  'riscv64/g2': { sha256: '4be2a275fb8764a7628af7a56383a4693307dd9d3b69f7aa8df3779d819b2e1c' },
  'riscv64/g2+probes': { sha256: '99128aa4127c479f8f64ddac74c70c3528328dc22591498291838461ab70e1ac' },
  'riscv64/g2-plain': { sha256: 'bfc1e2b8cbce5415177f425912a54fea04a40d71f90082ad508584fcb87ad362' },
  'riscv64/g2-plain+probes': { sha256: '9b438386a6cbae928ee80c09e4c9f779344fa41339bfb51cc0ffda3d210bf72d' },
  'riscv64/g2-merged': { sha256: '5e7c4e9cfd675085a2247c247ee827a448ce779e4b94da141060baaab64ce009' },
  'riscv64/g2-merged+probes': { sha256: '05078346efa6dc98de64f72452bbada068dd368aa9bcb9e08591f994ce30497e' },
  'riscv64/g3': { sha256: 'dd2ddada01f4a08b89c19b101d8ef4107d9e9fc5d8e3e98d4c72d87d62f4052e' },
  'riscv64/g3+probes': { sha256: '0e9e2c2f062e4572584e8cf25ccdc98220e0cf5b3bbc224e668ddba4dd73469f' },
  'riscv64/g3c': { sha256: '1d5e7fcc497026cd642856e1aaa487e586d499daf3356baf44336cdc3f6b01ab' },
  'riscv64/g3c+probes': { sha256: 'a7de2e867e5713c15aef99756213d7a36fd42430ac8542787ec74af9f54d9f37' },
  'riscv64/g1': { sha256: 'ea2e9f9c0f1749b1899192e897b91c510b7a98ca1ade3a9a4725e721e5c0800b' },
  'riscv64/g1+probes': { sha256: '18b7c0d7b1b8c86c73b86d55359cf88a234a4aded4a798b5038daff29b1cb1f9' },
  'riscv64/g0': { sha256: 'a046df6937ccfc55f95d1e8ebb98127dffb0f0d3cd1ab86e35602c604399558b' },
  'riscv64/g0+probes': { sha256: '1a53e9bc91bb93fc54c85bbdc23591c51b0429f78f7c16f8bad802cc9d15c08e' },
  'x86-64/modern': { sha256: '5779b2d8a776a54a6cee3ae78f00aa17eea90e2edc628f917f0eeca9285a3acd' },
  'x86-64/modern+probes': { sha256: '449cdda1286f2bbeff1b0c575396c430575cce5418f3a741297bfb876bbc694d' },
  'x86-64/y2014': { sha256: '323002ce62a12bfa51d6c2498feeb1f124525448944063c7d6c8da0f59e50a46' },
  'x86-64/y2014+probes': { sha256: '3259534978b201cfe6c0131386d5ee59a7a886cc8b1d43e853531b3c556cffce' },
  'x86-64/mcount': { sha256: '0ca4e093f524f3b43df913ee50ba5378b2fa74d265901d8928c1730e3cb0eabc' },
  'x86-64/mcount+probes': { sha256: '9e48edfeed8c2a3761f3895666f0d7d8c8d9a25b903c622c1b8585dc647500ec' },
  'ppc32/pg': { sha256: '5a1c8cc0c01eb30d4204aca4e8366d2a28a7f61bda6d3ba4014c1af182da9028' },
  'ppc32/pg+probes': { sha256: '57b9a15b9cacddab272b562e2eac936f82ecab7ece052a6e87d5a557e2fa5d0e' },
  'ppc32/regs': { sha256: 'e8f67b6f5b019db9d33eb49b7f260b079604e067e55be40ba1d1aed995ac1205' },
  'ppc32/regs+probes': { sha256: '91f2d15951c50fcc35f458e6a6425300dac2a02b40689acd65f53b6f31593de1' },
  'ppc32/ool': { sha256: '8373d4ec6b48efec2460d9830b539d13542fc3e14caa68319a3927089763659d' },
  'ppc32/ool+probes': { sha256: 'ae9f37c29e5106e6c5ddf769b82d158949b1e9815029e88e0dd71877e68625fa' },
  'ppc32/ool-ops': { sha256: '1feebea99495b17fe35a91d344c73e8c22c3d3aec68ac7cc161151a7b0cd1646' },
  'ppc32/ool-ops+probes': { sha256: '459b6e98c0b913ba24b72facfbe123ae700c2c209c3bd62f075c495573367279' },
  'ppc32/callops': { sha256: '72b56d8bc095f68af838d0bac298bd58d115b9ed88d81a244e0e6f65859f0785' },
  'ppc32/callops+probes': { sha256: 'a0a47664471df69c4989e8b99c2674606bea6ea4fc58519c5e2ed740f23d0abd' },
  'ppc64-elfv1/pg': { sha256: '7d51adf98451cf15fc49a852fb9ff37d3011ce71db9e0e32b3617ef93d3fbe1e' },
  'ppc64-elfv1/pg+probes': { sha256: 'e3c648fb1c7f271225f75fa1b62eed06efb4059850a34148ef7f4211a5b97944' },
  'ppc64-elfv1/regs': { sha256: '612895d09aa7b23d1aa8f1687d33cba1bd8dd164c6d02049fa9a2607f95f012d' },
  'ppc64-elfv1/regs+probes': { sha256: '5d431551031db79fb5be713924e1a15084fdf261dd5e7e5d109e69ec29b2c6f8' },
  'ppc64-elfv1/ool': { sha256: '35b62309466bfa34ac4c4f6b25f54659deb1bb088251ec970c5085496a1af138' },
  'ppc64-elfv1/ool+probes': { sha256: '39acc797bef789e5abb14570b903c4eeaa61435e64fe6af43569c11673b54e1a' },
  'ppc64-elfv1/ool-ops': { sha256: 'cdccc2a2721f79472b9fc4bd02963777d0a5ac8b0c8bb951d631028d8085b5fc' },
  'ppc64-elfv1/ool-ops+probes': { sha256: '60069373191a4ffda22368b21adb59fbf132904218d1224e38762da357fd5127' },
  'ppc64-elfv2-be/pg': { sha256: '4109cfb5b9fc06ce62fd52f65a68e67701664f3e9a2dc5bc077dd3b53acf4656' },
  'ppc64-elfv2-be/pg+probes': { sha256: 'dc9571543a072a1f2df64ffb71b8786e076e7de19198432eb86c0ffc68053eb0' },
  'ppc64-elfv2-be/regs': { sha256: '7efa6f37de72d3a420ee7ae51e052f3b980f1500752e40ee43f50e3d405a871a' },
  'ppc64-elfv2-be/regs+probes': { sha256: 'b778907284f48ca9d142760f7465fa0ce6ef67af28d67ece8d07bd1d4b2062ea' },
  'ppc64-elfv2-be/ool': { sha256: '07c4bcc937e48f5e49939b7fd71775fb1458fb9f7c662390141eb6d36535b841' },
  'ppc64-elfv2-be/ool+probes': { sha256: '1ae8568317c2bccfc9db0f670280449e6904619beea3c2c82f49e2ad966ca924' },
  'ppc64-elfv2-be/ool-ops': { sha256: '91974b5629b12947f86a1564d4e2883a75520bc8602990176f60666d1ff4d37f' },
  'ppc64-elfv2-be/ool-ops+probes': { sha256: '6e618630586e31b75a785627ae36dcea0f8fa1feb926a84f18acc0ae2552540a' },
  'ppc64-elfv2-le/pg': { sha256: '4fd44a8b7f4f08cb7a5daa5e6d504fdcb8dffad1bdbfdb6864a71ca040d4788b' },
  'ppc64-elfv2-le/pg+probes': { sha256: '677f804dfedacd4fd8f8215cfd8caec1c877f4c52a591b855e88e434a21251fd' },
  'ppc64-elfv2-le/regs': { sha256: 'c4393ba58182f0c53d5f60e3a95b6833292241ab7a9023c28157d93d32c21c0b' },
  'ppc64-elfv2-le/regs+probes': { sha256: '6e7ddaecd96f652411c0f54fb8f0365a1e5d8c68a8973cfb8f0fca78e1264356' },
  'ppc64-elfv2-le/ool': { sha256: 'ac34b5154e1bce1a8abd1fff60f557aaaf515893d18ff891d6681cde4ea3c9a7' },
  'ppc64-elfv2-le/ool+probes': { sha256: '8db9a510e9d7501b8988d399c7169ba5a79b5db536b929e0ce93a8f8cb20b010' },
  'ppc64-elfv2-le/ool-ops': { sha256: 'da7db44b83f9cad1a168800ed92d9168578aa10da8456209f9abfd77c7b5f52e' },
  'ppc64-elfv2-le/ool-ops+probes': { sha256: '0e88e450f5341234e12d44f9d81aef7b2fe673621ce5a9b1360130f2a24dc076' },
  'arm64/callops': { sha256: '6d3edf0437cfcd3053c07fe2e8b88a777c733af67c037e76488701b87c348cb0' },
  'arm64/callops+probes': { sha256: 'ca365169f9c5e2fa30a8cbafa20e7bc0d0741016c659ad4e04f2aea819e96bcd' },
  'arm64/args': { sha256: '4f0934c54441cd87d8ec6e65055fcd6ad79c73e443f77114e4db55d8e5506224' },
  'arm64/args+probes': { sha256: '325f31b4e45fc97b2d1dcb55b043c6f6d14878b12f264b44e5166c08c51b0091' },
  'arm64/regs': { sha256: '837ac1295ec1c80468811817043170dbcab5477b64b0b48c5321fbd876eed3a7' },
  'arm64/regs+probes': { sha256: 'ef1943987a656a51561c6256f6458ec8289875f9aebab97821b2c24a791aa9bb' },
  'arm64/pg': { sha256: '5a12d192d7b767dbfd04f6442be1c16ed22824fb737a0aa77a5fa70e87838abc' },
  'arm64/pg+probes': { sha256: '46430282a1adaa6726206280ac6b90692026575d17da3db433cb2b26ca5ea13a' },
  'x86-64/native': { sha256: '20f06ea5d2153c3590a0d2002b90ee89c8f7d8d6eeb40d77c28aed4888a3bc1b' },
  'arm64/native': { sha256: '7ddf647907c1b26b96edfba576d4ff3bc44b78dcaabb7f2de355ead5b4b5ed1d' },
  'riscv64/native': { sha256: 'fa9e1b42ef6ee11f5853021eabb081a80a710471a96221e6755ffde8cdb0f0e3' },
  'ppc64-elfv2-le/native': { sha256: '01c0727346fcdd1552b10044e3e4658fe1039ff883b0a8799b9886bb0f38acfe' },
};
