import pytest

pytest.importorskip("nvflare", reason="needs the extra [nvflare]: make test-nvflare")
